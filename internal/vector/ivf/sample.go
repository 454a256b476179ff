package ivf

// Bounds of the training sample (RFC-109 section 5.1).
const (
	sampleFloor      = 1_000_000  // tables up to this size are used whole
	sampleCeiling    = 10_000_000 // more rows do not improve centroids
	samplePerCluster = 256        // rows for each centroid
	sampleShare      = 100        // one row of a hundred; the RFC allows 0.5 % to 1 %
)

// SampleSize is the number of rows to train on for a table of n indexable rows and k clusters:
// min(n, max(1,000,000, 256·k, min(10,000,000, 1 % of n))).
func SampleSize(n, k int64) int64 {
	return min(n, max(sampleFloor, samplePerCluster*k, min(sampleCeiling, n/sampleShare)))
}
