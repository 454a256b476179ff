package delta_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"sort"
	"testing"

	"tidemark/delta"
	"tidemark/internal/hudi/hfile"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

type hexBytes []byte

func (h *hexBytes) UnmarshalJSON(b []byte) error {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil || s == nil {
		return err
	}
	v, err := hex.DecodeString(*s)
	*h = v
	return err
}

func load(t testing.TB, name string, into any) {
	t.Helper()
	if err := json.Unmarshal(testkit.File(t, "golden/vector-index/"+name), into); err != nil {
		t.Fatal(err)
	}
}

type keyArgs struct {
	Generation uint32 `json:"generation"`
	Cluster    uint32 `json:"cluster"`
	Shard      uint16 `json:"shard"`
	BlockID    uint32 `json:"block_id"`
	Chunk      uint16 `json:"chunk"`
	Instant    string `json:"instant"`
	RecordKey  string `json:"record_key"`
}

func build(t *testing.T, fn string, a keyArgs) ([]byte, delta.Key) {
	t.Helper()
	switch fn {
	case "active_manifest":
		return delta.PointerKey(), delta.Key{Family: delta.FamilyPointer}
	case "manifest":
		return delta.ManifestKey(a.Generation), delta.Key{Family: delta.FamilyManifest, Generation: a.Generation}
	case "quantizer":
		return delta.QuantizerKey(a.Generation, a.Chunk), delta.Key{Family: delta.FamilyQuantizer, Generation: a.Generation, Chunk: a.Chunk}
	case "centroids":
		return delta.CentroidsKey(a.Generation, a.Chunk), delta.Key{Family: delta.FamilyCentroids, Generation: a.Generation, Chunk: a.Chunk}
	case "cluster_stats":
		return delta.StatsKey(a.Generation, a.Cluster), delta.Key{Family: delta.FamilyStats, Generation: a.Generation, Cluster: a.Cluster}
	case "source_instant_marker":
		return delta.MarkerKey(a.Generation, a.Instant), delta.Key{Family: delta.FamilyMarker, Generation: a.Generation, Instant: a.Instant}
	case "source_instant_marker_prefix":
		return delta.MarkerPrefix(a.Generation), delta.Key{}
	case "posting_block":
		k := delta.Key{Family: delta.FamilyBlock, Generation: a.Generation, Cluster: a.Cluster, Segment: a.Shard, Block: a.BlockID}
		if a.BlockID == delta.DeltaBlockID {
			k.Family = delta.FamilyDelta
		}
		return delta.BlockKey(a.Generation, a.Cluster, a.Shard, a.BlockID), k
	case "posting_delta":
		return delta.PostingKey(a.Generation, a.Cluster, a.Shard, a.RecordKey),
			delta.Key{Family: delta.FamilyDelta, Generation: a.Generation, Cluster: a.Cluster, Segment: a.Shard, Block: delta.DeltaBlockID, RecordKey: a.RecordKey}
	case "posting_prefix":
		return delta.SegmentPrefix(a.Generation, a.Cluster, a.Shard), delta.Key{}
	case "posting_cluster_prefix":
		return delta.ClusterPrefix(a.Generation, a.Cluster), delta.Key{}
	}
	t.Fatalf("golden key of an unknown family: %s", fn)
	return nil, delta.Key{}
}

func TestGoldenKeys(t *testing.T) {
	t.Parallel()
	var g struct {
		Keys []struct {
			Fn      string   `json:"fn"`
			Args    keyArgs  `json:"args"`
			Logical hexBytes `json:"logical_key_hex"`
			HFile   hexBytes `json:"hfile_key_hex"`
			UTF8    hexBytes `json:"record_key_utf8_hex"`
			Parsed  *struct {
				Cluster   uint32  `json:"cluster"`
				Shard     uint16  `json:"shard"`
				BlockID   uint32  `json:"block_id"`
				RecordKey *string `json:"record_key"`
			} `json:"parsed"`
		} `json:"keys"`
		Ends []struct {
			Prefix   hexBytes `json:"prefix_hex"`
			End      hexBytes `json:"exclusive_end_hex"`
			HFileEnd hexBytes `json:"exclusive_end_hfile_hex"`
		} `json:"exclusive_end"`
		Sorted   []string `json:"sorted_logical_keys_hex"`
		BlockIDs struct {
			MaxPacked uint32 `json:"max_packed"`
			Delta     uint32 `json:"delta"`
		} `json:"block_ids"`
	}
	load(t, "keys.json", &g)
	if len(g.Keys) < 200 || g.BlockIDs.MaxPacked != delta.MaxBlockID || g.BlockIDs.Delta != delta.DeltaBlockID {
		t.Fatalf("got %d keys, block ids %+v", len(g.Keys), g.BlockIDs)
	}
	for _, c := range g.Keys {
		key, want := build(t, c.Fn, c.Args)
		if !bytes.Equal(key, c.Logical) {
			t.Errorf("%s %+v: got %x, want %x", c.Fn, c.Args, key, c.Logical)
		}
		if stored := hfile.EncodeKey(key); !bytes.Equal(stored, c.HFile) {
			t.Errorf("%s %+v: stored as %x, want %x", c.Fn, c.Args, stored, c.HFile)
		}
		if c.UTF8 != nil && string(c.UTF8) != c.Args.RecordKey {
			t.Errorf("record key %q is not %x in UTF-8", c.Args.RecordKey, c.UTF8)
		}
		if want.Family == 0 {
			continue // a prefix is no key
		}
		got, err := delta.ParseKey(key)
		if err != nil || got != want {
			t.Errorf("%s %+v: parsed as %+v, %v", c.Fn, c.Args, got, err)
		}
		if p := c.Parsed; p != nil {
			name := ""
			if p.RecordKey != nil {
				name = *p.RecordKey
			}
			if got.Cluster != p.Cluster || got.Segment != p.Shard || got.Block != p.BlockID || got.RecordKey != name {
				t.Errorf("%x: parsed as %+v, want %+v", key, got, *p)
			}
		}
	}
	for _, c := range g.Ends {
		end := delta.PrefixEnd(c.Prefix)
		if !bytes.Equal(end, c.End) || (end != nil && !bytes.Equal(hfile.EncodeKey(end), c.HFileEnd)) {
			t.Errorf("end of %x: got %x, want %x", c.Prefix, end, c.End)
		}
	}
	if !sort.StringsAreSorted(g.Sorted) {
		t.Error("logical keys are not in byte order")
	}
	stored := make([]string, len(g.Sorted))
	for i, s := range g.Sorted {
		k, _ := hex.DecodeString(s)
		stored[i] = string(hfile.EncodeKey(k))
	}
	if !slices.IsSorted(stored) {
		t.Error("stored keys are not in the order of the logical ones")
	}
}

func TestParseKeyRefuses(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{
		"empty": "", "pointer with bytes": "0000", "no generation": "01000000", "manifest too long": "010000000100",
		"chunk cut": "020000000100", "stats too long": "0400000001000000000000", "marker without instant": "0500000001",
		"posting cut": "1000000001000000000000000000", "block with bytes": "10000000010000000000000000000061", "unknown tag": "0600000001",
	} {
		b, _ := hex.DecodeString(key)
		if k, err := delta.ParseKey(b); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: got %+v, %v", name, k, err)
		}
	}
}

func TestPrefixes(t *testing.T) {
	t.Parallel()
	for name, p := range map[string][2][]byte{
		"manifest":  {delta.ManifestPrefix(), delta.ManifestKey(7)},
		"quantizer": {delta.QuantizerPrefix(7), delta.QuantizerKey(7, 1)},
		"centroids": {delta.CentroidsPrefix(7), delta.CentroidsKey(7, 1)},
		"stats":     {delta.StatsPrefix(7), delta.StatsKey(7, 1)},
		"postings":  {delta.PostingsPrefix(7), delta.PostingKey(7, 1, 2, "k")},
	} {
		if !bytes.HasPrefix(p[1], p[0]) {
			t.Errorf("%s: %x does not start with %x", name, p[1], p[0])
		}
	}
	if delta.FamilyDelta.String() != "delta" || delta.Family(99).String() != "unknown" {
		t.Error("family names")
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add([]byte{0})
	f.Add(delta.PostingKey(1, 2, 3, "ключ"))
	f.Add(delta.BlockKey(1, 2, 3, 4))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := delta.ParseKey(b)
		if err != nil {
			return
		}
		var again []byte
		switch k.Family {
		case delta.FamilyPointer:
			again = delta.PointerKey()
		case delta.FamilyManifest:
			again = delta.ManifestKey(k.Generation)
		case delta.FamilyQuantizer:
			again = delta.QuantizerKey(k.Generation, k.Chunk)
		case delta.FamilyCentroids:
			again = delta.CentroidsKey(k.Generation, k.Chunk)
		case delta.FamilyStats:
			again = delta.StatsKey(k.Generation, k.Cluster)
		case delta.FamilyMarker:
			again = delta.MarkerKey(k.Generation, k.Instant)
		case delta.FamilyBlock:
			again = delta.BlockKey(k.Generation, k.Cluster, k.Segment, k.Block)
		case delta.FamilyDelta:
			again = delta.PostingKey(k.Generation, k.Cluster, k.Segment, k.RecordKey)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%x parsed as %+v, which is %x", b, k, again)
		}
	})
}
