package delta

import (
	"encoding/binary"
	"fmt"

	"tidemark/internal/storage"
)

// Family is the kind of an index key (docs/format/keys.md). Posting blocks and posting deltas share the tag
// byte 0x10 and are told apart by the block id.
type Family uint8

// The key families, in the order of their tag bytes.
const (
	FamilyPointer   Family = iota + 1 // 0x00: which generation is active
	FamilyManifest                    // 0x01: one generation
	FamilyQuantizer                   // 0x02: quantizer chunk
	FamilyCentroids                   // 0x03: centroid chunk
	FamilyStats                       // 0x04: counters of one cluster
	FamilyMarker                      // 0x05: one covered data commit
	FamilyBlock                       // 0x10: packed postings
	FamilyDelta                       // 0x10 with block id DeltaBlockID: one posting delta or tombstone
)

var familyNames = [...]string{"unknown", "pointer", "manifest", "quantizer", "centroids", "stats", "marker", "block", "delta"}

// String returns the family's short name, as inspect prints it.
func (f Family) String() string {
	if int(f) < len(familyNames) {
		return familyNames[f]
	}
	return familyNames[0]
}

const (
	tagPointer   = 0x00
	tagManifest  = 0x01
	tagQuantizer = 0x02
	tagCentroids = 0x03
	tagStats     = 0x04
	tagMarker    = 0x05
	tagPosting   = 0x10
)

const (
	// MaxBlockID is the largest id a packed block may have; the ids between it and DeltaBlockID are reserved.
	MaxBlockID uint32 = 0xFFFDFFFF
	// DeltaBlockID stands where a block id would, and makes deltas sort after every block of their segment.
	DeltaBlockID uint32 = 0xFFFFFFFF
)

// Lengths of the fixed parts, in bytes.
const (
	lenManifest = 5
	lenChunk    = 7
	lenStats    = 9
	lenCluster  = 9
	lenSegment  = 11
	lenPosting  = 15
)

// Key is a parsed logical key. Only the fields of its family are set.
type Key struct {
	Family     Family
	Generation uint32
	Cluster    uint32
	Segment    uint16
	Block      uint32 // DeltaBlockID for FamilyDelta
	Chunk      uint16
	Instant    string // FamilyMarker: completion time of the data commit
	RecordKey  string // FamilyDelta: UTF-8; empty for the 15-byte key of an empty record key
}

// PointerKey returns the key of the active pointer.
func PointerKey() []byte { return []byte{tagPointer} }

// ManifestKey returns the key of a generation's manifest.
func ManifestKey(generation uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{tagManifest}, generation)
}

// QuantizerKey returns the key of a quantizer chunk.
func QuantizerKey(generation uint32, chunk uint16) []byte {
	return chunkKey(tagQuantizer, generation, chunk)
}

// CentroidsKey returns the key of a centroid chunk.
func CentroidsKey(generation uint32, chunk uint16) []byte {
	return chunkKey(tagCentroids, generation, chunk)
}

func chunkKey(tag byte, generation uint32, chunk uint16) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, lenChunk), generation)
	b = append([]byte{tag}, b...)
	return binary.BigEndian.AppendUint16(b, chunk)
}

// CentroidsPrefix returns the prefix of all centroid chunks of a generation.
func CentroidsPrefix(generation uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{tagCentroids}, generation)
}

// QuantizerPrefix returns the prefix of all quantizer chunks of a generation.
func QuantizerPrefix(generation uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{tagQuantizer}, generation)
}

// ManifestPrefix returns the prefix of every generation's manifest.
func ManifestPrefix() []byte { return []byte{tagManifest} }

// StatsKey returns the key of a cluster's counters.
func StatsKey(generation, cluster uint32) []byte {
	b := binary.BigEndian.AppendUint32([]byte{tagStats}, generation)
	return binary.BigEndian.AppendUint32(b, cluster)
}

// StatsPrefix returns the prefix of all cluster counters of a generation.
func StatsPrefix(generation uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{tagStats}, generation)
}

// MarkerKey returns the key of the marker of a data commit, named by its completion time (design, decision 6).
func MarkerKey(generation uint32, completed string) []byte {
	return append(MarkerPrefix(generation), completed...)
}

// MarkerPrefix returns the prefix of all markers of a generation.
func MarkerPrefix(generation uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{tagMarker}, generation)
}

// BlockKey returns the key of a packed posting block. It does not refuse reserved block ids: the packer does.
func BlockKey(generation, cluster uint32, segment uint16, block uint32) []byte {
	return binary.BigEndian.AppendUint32(SegmentPrefix(generation, cluster, segment), block)
}

// PostingKey returns the key of a posting delta or of a tombstone of one record key.
func PostingKey(generation, cluster uint32, segment uint16, recordKey string) []byte {
	return appendPostingKey(make([]byte, 0, lenPosting+len(recordKey)), generation, cluster, segment, recordKey)
}

func appendPostingKey(b []byte, generation, cluster uint32, segment uint16, recordKey string) []byte {
	b = binary.BigEndian.AppendUint32(append(b, tagPosting), generation)
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(b, cluster), segment)
	return append(binary.BigEndian.AppendUint32(b, DeltaBlockID), recordKey...)
}

// PostingsPrefix returns the prefix of all blocks and deltas of a generation.
func PostingsPrefix(generation uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{tagPosting}, generation)
}

// ClusterPrefix returns the prefix of all blocks and deltas of a cluster.
func ClusterPrefix(generation, cluster uint32) []byte {
	return binary.BigEndian.AppendUint32(PostingsPrefix(generation), cluster)
}

// SegmentPrefix returns the prefix of all blocks and deltas of one segment of a cluster.
func SegmentPrefix(generation, cluster uint32, segment uint16) []byte {
	return binary.BigEndian.AppendUint16(ClusterPrefix(generation, cluster), segment)
}

// PrefixEnd returns the smallest key above every key with the prefix; nil if there is no such key (all 0xFF).
func PrefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xFF {
			end := append([]byte(nil), prefix[:i+1]...)
			end[i]++
			return end
		}
	}
	return nil
}

// ParseKey parses a logical key. Unknown tags, short keys and trailing bytes are storage.ErrCorrupt.
func ParseKey(key []byte) (Key, error) {
	bad := func(why string) (Key, error) {
		return Key{}, fmt.Errorf("parse index key %x: %s: %w", key[:min(len(key), 32)], why, storage.ErrCorrupt)
	}
	if len(key) == 0 {
		return bad("empty")
	}
	if key[0] == tagPointer {
		if len(key) != 1 {
			return bad("bytes after the pointer tag")
		}
		return Key{Family: FamilyPointer}, nil
	}
	if len(key) < lenManifest {
		return bad("no generation")
	}
	k := Key{Generation: binary.BigEndian.Uint32(key[1:])}
	want := len(key)
	switch key[0] {
	case tagManifest:
		k.Family, want = FamilyManifest, lenManifest
	case tagQuantizer:
		k.Family, want = FamilyQuantizer, lenChunk
	case tagCentroids:
		k.Family, want = FamilyCentroids, lenChunk
	case tagStats:
		k.Family, want = FamilyStats, lenStats
	case tagMarker:
		k.Family, k.Instant = FamilyMarker, string(key[lenManifest:])
		if k.Instant == "" {
			return bad("marker without an instant")
		}
	case tagPosting:
		if len(key) < lenPosting {
			return bad("short posting key")
		}
		k.Family = FamilyBlock
		k.Cluster = binary.BigEndian.Uint32(key[lenManifest:])
		k.Segment = binary.BigEndian.Uint16(key[lenCluster:])
		k.Block = binary.BigEndian.Uint32(key[lenSegment:])
		want = lenPosting
		if k.Block == DeltaBlockID {
			k.Family, k.RecordKey, want = FamilyDelta, string(key[lenPosting:]), len(key)
		}
	default:
		return bad("unknown family")
	}
	if len(key) != want {
		return bad(fmt.Sprintf("%d bytes, want %d", len(key), want))
	}
	switch k.Family {
	case FamilyQuantizer, FamilyCentroids:
		k.Chunk = binary.BigEndian.Uint16(key[lenManifest:])
	case FamilyStats:
		k.Cluster = binary.BigEndian.Uint32(key[lenManifest:])
	}
	return k, nil
}
