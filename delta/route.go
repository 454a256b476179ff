package delta

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"

	"tidemark/internal/vector/rabitq"
)

const (
	// rowsPerSegment is how many postings of a cluster one segment is meant for (docs/format/keys.md, Where a key lies).
	rowsPerSegment = 100_000
	// MaxSegments is the largest number of segments of a cluster.
	MaxSegments = 64
	// TargetBlockBytes is what a posting block is meant to weigh; written to the manifest.
	TargetBlockBytes = 65536
	// keyBytesAssumed is the record key length the block size formula reckons with.
	keyBytesAssumed = 36

	minVectorsPerBlock = 256
	maxVectorsPerBlock = 4096
)

// javaHash is java.lang.String.hashCode: over UTF-16 units, wrapping. Bytes that are no UTF-8 count as U+FFFD,
// as a Java decoder makes of them.
func javaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r < 0x10000 {
			h = 31*h + int32(r)
			continue
		}
		hi, lo := utf16.EncodeRune(r)
		h = 31*(31*h+int32(hi)) + int32(lo)
	}
	return h
}

func mixedHash(recordKey string) int32 {
	h := uint32(javaHash(recordKey))
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	return int32(h)
}

func floorMod(a, n int32) int {
	m := a % n
	if m < 0 {
		m += n
	}
	return int(m)
}

// SegmentOf returns the segment of a record key in a cluster of count segments; a count below 1 counts as 1.
func SegmentOf(recordKey string, count int) int {
	return floorMod(mixedHash(recordKey), int32(max(1, count)))
}

// SegmentCount returns how many segments a cluster of the given number of postings gets: 1 to MaxSegments.
// It is fixed when a generation is built and never changes with the counters.
func SegmentCount(population int64) int {
	if population <= 0 {
		return 1
	}
	return int(min((population-1)/rowsPerSegment+1, MaxSegments))
}

// VectorsPerBlock returns how many postings a full block holds: the largest power of two that fits
// TargetBlockBytes, between 256 and 4096.
func VectorsPerBlock(dim, bitsTotal int, vectorNorm bool) int {
	factors := 6
	if vectorNorm {
		factors++
	}
	per := bitsTotal*rabitq.RowBytes(dim) + 4*factors + 8 + keyBytesAssumed + 4
	n := max(1, TargetBlockBytes/per)
	n = 1 << (bits.Len(uint(n)) - 1)
	return min(max(n, minVectorsPerBlock), maxVectorsPerBlock)
}

// FileGroup returns the physical file group, 0 to n-1, that holds a logical key: postings of a cluster
// together, everything else by the hash of the key's bytes (docs/format/keys.md, Where a key lies). A cluster number that is negative
// as a Java int is placed by the hash of its nine-byte prefix, as the golden cases show.
func FileGroup(key []byte, n int) int {
	if n <= 1 {
		return 0
	}
	if len(key) >= lenCluster && key[0] == tagPosting {
		if c := binary.BigEndian.Uint32(key[lenManifest:]); c <= math.MaxInt32 {
			return int(c % uint32(n))
		}
		key = key[:lenCluster]
	}
	var h int32
	for _, b := range key {
		h = 31*h + int32(b)
	}
	if h < 0 {
		h = -h // stays negative for -2^31, as Java's Math.abs does
	}
	m := h % int32(n)
	if m < 0 {
		m = -m
	}
	return int(m)
}

// CompareUTF16 orders two strings by their UTF-16 units, as Java's String.compareTo does. It differs from byte
// order only where a character above U+FFFF meets one of U+E000 to U+FFFF.
func CompareUTF16(a, b string) int {
	for a != "" && b != "" {
		ra, na := utf8.DecodeRuneInString(a)
		rb, nb := utf8.DecodeRuneInString(b)
		if ra != rb {
			return compareRunes(ra, rb)
		}
		if ra == utf8.RuneError && (na == 1 || nb == 1) && a[:na] != b[:nb] {
			// Bytes that are no UTF-8: fall back to byte order so that the order stays total.
			if a[:na] < b[:nb] {
				return -1
			}
			return 1
		}
		a, b = a[na:], b[nb:]
	}
	return len(a) - len(b)
}

func compareRunes(a, b rune) int {
	ua, ub := firstUnit(a), firstUnit(b)
	if ua != ub {
		return int(ua) - int(ub)
	}
	return int(a - b) // same high surrogate: the low one decides, and code points have the same order
}

func firstUnit(r rune) rune {
	if r < 0x10000 {
		return r
	}
	hi, _ := utf16.EncodeRune(r)
	return hi
}
