package delta_test

import (
	"slices"
	"strconv"
	"testing"

	"tidemark/delta"
)

func TestGoldenRouting(t *testing.T) {
	t.Parallel()
	var g struct {
		Hash []struct {
			Key     string         `json:"record_key"`
			UTF8    hexBytes       `json:"record_key_utf8_hex"`
			ByCount map[string]int `json:"segment_id_by_count"`
		} `json:"segment_hash"`
		Count []struct {
			Population int64 `json:"cluster_population"`
			Count      int   `json:"segment_count"`
		} `json:"segment_count_target_100000_max_64"`
		PerBlock []struct {
			Dim    int  `json:"dim"`
			Bits   int  `json:"bits"`
			Norm   bool `json:"include_vector_norm"`
			Target int  `json:"target_block_bytes"`
			Per    int  `json:"vectors_per_block"`
		} `json:"vectors_per_block"`
		Groups []struct {
			Key     hexBytes       `json:"logical_key_hex"`
			ByCount map[string]int `json:"file_group_index_by_count"`
		} `json:"file_group"`
	}
	load(t, "routing.json", &g)
	for _, c := range g.Hash {
		for n, want := range c.ByCount {
			count, _ := strconv.Atoi(n)
			if got := delta.SegmentOf(string(c.UTF8), count); got != want {
				t.Errorf("segment of %q in %d: got %d, want %d", c.Key, count, got, want)
			}
		}
	}
	for _, c := range g.Count {
		if got := delta.SegmentCount(c.Population); got != c.Count {
			t.Errorf("segments of %d: got %d, want %d", c.Population, got, c.Count)
		}
	}
	for _, c := range g.PerBlock {
		if c.Target != delta.TargetBlockBytes {
			continue
		}
		if got := delta.VectorsPerBlock(c.Dim, c.Bits, c.Norm); got != c.Per {
			t.Errorf("vectors per block of %+v: got %d", c, got)
		}
	}
	for _, c := range g.Groups {
		for n, want := range c.ByCount {
			count, _ := strconv.Atoi(n)
			if got := delta.FileGroup(c.Key, count); got != want {
				t.Errorf("file group of %x in %d: got %d, want %d", []byte(c.Key), count, got, want)
			}
		}
	}
	if len(g.Hash) < 70 || len(g.Groups) < 40 || len(g.PerBlock) < 40 {
		t.Fatal("golden routing cases are missing")
	}
}

func TestFileGroupOfTheSmallestHash(t *testing.T) {
	t.Parallel()
	// "polygenelubricants" has the Java hash -2^31, whose absolute value is itself.
	for n, want := range map[int]int{2: 0, 3: 2, 7: 2, 64: 0} {
		if got := delta.FileGroup([]byte("polygenelubricants"), n); got != want {
			t.Errorf("group %d of %d, want %d", got, n, want)
		}
	}
}

func TestCompareUTF16(t *testing.T) {
	t.Parallel()
	// Ascending by UTF-16 units: U+10348 is D800 DF48 and sorts below U+FFEE.
	want := []string{"", "a", "aa", "b", "é", "日", "\U00010348", "\U00010349", "\U0001F600", "\uFFEE"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, delta.CompareUTF16)
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if delta.CompareUTF16("a\xff", "a\xfe") <= 0 || delta.CompareUTF16("\xfe", "\xff") >= 0 || delta.CompareUTF16("\xff", "\xff") != 0 {
		t.Error("bytes that are no UTF-8 have no total order")
	}
}
