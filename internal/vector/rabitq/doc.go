// Package rabitq owns the RaBitQ codes of posting blocks and deltas: the seeded rotation, the encoder for 1 to 8 bits, the
// factors stored beside a code, and the estimates made from both (docs/format/rabitq.md).
//
// It refuses to own clusters, keys, records and block framing. It may import internal/vector/kernel and nothing else of
// the project.
//
// Invariant: bytes and estimates equal those of the reference encoder bit for bit, on every machine. Sums run in
// ascending order, float32 appears exactly where the format names it, and every product is rounded by an explicit
// conversion before it is added, so no compiler may fuse the two steps.
package rabitq
