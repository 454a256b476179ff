package diffing_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tidemark/delta"
	"tidemark/diffing"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage/file"
	"tidemark/internal/vector/kernel"
	"tidemark/timeline"
)

// big is a made-up table of one large file group on disk: a base file, and a second commit that changes some rows by
// another base file or by a log.
type big struct {
	dir     string
	rows    int
	dim     int
	pages   int // rows of a vector page
	mor     bool
	share   float64 // of the rows that change
	cluster bool    // they lie together
	shuffle bool    // the second base file has another order
	noPos   bool    // the log has no record positions
	codec   string  // of pages; gzip by default
}

// keyPageRows is Hudi's limit of rows a page (parquet-mr).
const keyPageRows = 20000

const bigGroup = "g"

func bigAt(n int) string { return fmt.Sprintf("2026010100000%04d", n) }

func (x big) base(n int) string { return fmt.Sprintf("p/%s_0-0-0_%s.parquet", bigGroup, bigAt(n)) }
func (x big) log() string {
	return fmt.Sprintf("p/.%s_%s.log.1_0-0-0", bigGroup, bigAt(3))
}

// changed returns the positions of the rows that the second commit changes, ascending.
func (x big) changed() []int {
	n := max(1, int(float64(x.rows)*x.share))
	out := make([]int, 0, n)
	if x.cluster {
		for i := range n {
			out = append(out, x.rows/3+i)
		}
		return out
	}
	taken := map[int]bool{}
	for s := uint64(1); len(out) < n; s++ {
		if at := int(mix(s) % uint64(x.rows)); !taken[at] {
			taken[at] = true
			out = append(out, at)
		}
	}
	slices.Sort(out)
	return out
}

// mix is splitmix64: numbers without a pattern from numbers with one.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// key is a random UUID, as most tables have.
func (x big) key(i int) []byte {
	a, b := mix(uint64(i)), mix(uint64(i)+1<<40)
	return fmt.Appendf(nil, "%08x-%04x-4%03x-%04x-%012x", uint32(a>>32), uint16(a>>16), a&0xfff, uint16(b>>48), b&0xffffffffffff)
}

// vector is a row's vector in one of its versions: components in [−1, 1).
func (x big) vector(i, version int) []byte {
	out := make([]byte, 0, 4*x.dim)
	s := uint64(i)<<20 | uint64(version)<<60
	for j := range x.dim {
		f := float32(int64(mix(s+uint64(j))>>40)-1<<23) / (1 << 23)
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f))
	}
	return out
}

func (x big) schema(meta bool) string {
	fields := ""
	if meta {
		for _, n := range []string{"_hoodie_commit_time", "_hoodie_record_key"} {
			fields += `{"name":"` + n + `","type":["null","string"],"default":null},`
		}
	}
	return fmt.Sprintf(`{"type":"record","name":"t_record","namespace":"hoodie.t","fields":[%s{"name":"id","type":["null","string"],"default":null},`+
		`{"name":"v","type":["null",{"type":"fixed","name":"vector_float_%[2]d","size":%[3]d,"logicalType":"vector","dimension":%[2]d,"elementType":"FLOAT","storageBacking":"FIXED_BYTES"}],"default":null}]}`,
		fields, x.dim, 4*x.dim)
}

// write makes the table unless it is there from an earlier run.
func (x big) write(t testing.TB) {
	t.Helper()
	done := filepath.Join(x.dir, "complete")
	if _, err := os.Stat(done); err == nil {
		return
	}
	if err := os.RemoveAll(x.dir); err != nil {
		t.Fatal(err)
	}
	put := func(name string, b []byte) int {
		t.Helper()
		path := filepath.Join(x.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return len(b)
	}
	kind := map[bool]string{true: "MERGE_ON_READ", false: "COPY_ON_WRITE"}[x.mor]
	put(".hoodie/hoodie.properties", fmt.Appendf(nil, "hoodie.table.name=t\nhoodie.table.type=%s\nhoodie.table.version=9\nhoodie.table.initial.version=9\n"+
		"hoodie.timeline.layout.version=2\nhoodie.table.base.file.format=PARQUET\nhoodie.table.recordkey.fields=id\nhoodie.record.merge.mode=COMMIT_TIME_ORDERING\n"+
		"hoodie.table.keygenerator.type=SIMPLE\nhoodie.table.checksum=%d\n", kind, crc32.ChecksumIEEE([]byte(".t"))))
	put("p/.hoodie_partition_metadata", []byte("partitionDepth=1\n"))
	commit := func(action string, requested int, path string, size int64) {
		b, err := json.Marshal(map[string]any{"operationType": "UPSERT", "extraMetadata": map[string]string{"schema": x.schema(false)},
			"partitionToWriteStats": map[string]any{"p": []map[string]any{{"fileId": bigGroup, "path": path, "partitionPath": "p", "fileSizeInBytes": size, "prevCommit": "null"}}}})
		if err != nil {
			t.Fatal(err)
		}
		put(fmt.Sprintf(".hoodie/timeline/%s_%s.%s", bigAt(requested), bigAt(requested+1), action), b)
	}
	update := map[int]bool{}
	for _, i := range x.changed() {
		update[i] = true
	}
	action := map[bool]string{true: "deltacommit", false: "commit"}[x.mor]
	commit(action, 1, x.base(1), x.writeBase(t, 1, nil))
	if x.mor {
		commit(action, 3, x.log(), int64(put(x.log(), x.block())))
	} else {
		commit(action, 3, x.base(3), x.writeBase(t, 3, update))
	}
	put("complete", nil)
}

// writeBase writes a base file with Hudi's cuts: pages of 1 MiB or 20,000 rows, row groups of 120 MiB, gzip.
func (x big) writeBase(t testing.TB, n int, update map[int]bool) int64 {
	t.Helper()
	path := filepath.Join(x.dir, x.base(n))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	common := filepath.Join(filepath.Dir(x.dir), fmt.Sprintf("first-%d-%d-%d-%s.parquet", x.rows, x.dim, x.pages, x.codec)) // the same in all tables
	if n == 1 && os.Link(common, path) == nil {
		return x.sizeOf(t, path)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	row := func(i int) int {
		if x.shuffle && n > 1 { // a permutation: 7919 is prime to any number of rows used here
			return int(uint64(i) * 7919 % uint64(x.rows))
		}
		return i
	}
	old, now, partition := []byte(bigAt(1)), []byte(bigAt(n)), []byte("p")
	basefiletest.WriteTo(t, f, basefiletest.Config{Codec: x.codec, Rows: x.rows, PageRows: keyPageRows, GroupRows: max(120<<20/(4*x.dim+80), 1)},
		basefiletest.Column{Name: "_hoodie_commit_time", Kind: basefile.String, Encoding: "dict", At: func(i int) []byte {
			if update[row(i)] {
				return now
			}
			return old
		}},
		basefiletest.Column{Name: "_hoodie_record_key", Kind: basefile.String, At: func(i int) []byte { return x.key(row(i)) }},
		basefiletest.Column{Name: "_hoodie_partition_path", Kind: basefile.String, Encoding: "dict", At: func(int) []byte { return partition }},
		basefiletest.Column{Name: "id", Kind: basefile.String, At: func(i int) []byte { return x.key(row(i)) }},
		basefiletest.Column{Name: "v", Kind: basefile.Fixed, Width: 4 * x.dim, PageRows: x.pages, At: func(i int) []byte {
			version := 1
			if update[row(i)] {
				version = 2
			}
			return x.vector(row(i), version)
		}})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if n == 1 {
		_ = os.Link(path, common) // where links cannot be made each table has its own
	}
	return x.sizeOf(t, path)
}

func (x big) sizeOf(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// block is the log of the second commit.
func (x big) block() []byte {
	text := func(dst, s []byte) []byte { return append(binary.AppendVarint(append(dst, 2), int64(len(s))), s...) }
	var recs [][]byte
	for _, i := range x.changed() {
		rec := text(text(text(nil, []byte(bigAt(3))), x.key(i)), x.key(i))
		recs = append(recs, append(append(rec, 2), x.vector(i, 2)...))
	}
	header := []logfile.HeaderEntry{{Key: logfile.InstantTime, Value: bigAt(3)}, {Key: logfile.SchemaKey, Value: x.schema(true)}}
	if !x.noPos {
		header = append(header, logfile.HeaderEntry{Key: logfile.RecordPositions, Value: bitmap(x.changed())},
			logfile.HeaderEntry{Key: logfile.PositionsBaseInstant, Value: bigAt(1)})
	}
	return logfile.AppendBlock(nil, logfile.TypeAvro, header, logfile.AvroContent(nil, recs))
}

// bitmap is the Base64 of a 64-bit roaring bitmap of array and bitmap containers.
func bitmap(at []int) string {
	var b bytes.Buffer
	le := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	var parts [][]uint16
	var keys []uint16
	for _, p := range at {
		if k := uint16(p >> 16); len(keys) == 0 || keys[len(keys)-1] != k {
			keys, parts = append(keys, k), append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], uint16(p))
	}
	le(uint64(1))
	le([]uint32{0, 12346, uint32(len(keys))})
	for i := range keys {
		le([]uint16{keys[i], uint16(len(parts[i]) - 1)})
	}
	offset := uint32(8 + 8*len(keys))
	for i := range keys {
		le(offset)
		offset += uint32(min(2*len(parts[i]), 8192))
		if len(parts[i]) > 4096 {
			offset += 8192 - uint32(min(2*len(parts[i]), 8192))
		}
	}
	for _, p := range parts {
		if len(p) <= 4096 {
			le(p)
			continue
		}
		var bits [1024]uint64
		for _, v := range p {
			bits[v/64] |= 1 << (v % 64)
		}
		le(bits)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// open returns the table and the question about its second commit.
func (x big) open(t testing.TB) (real, diffing.Request) {
	t.Helper()
	x.write(t)
	st, err := file.New(x.dir)
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
	w := tab.Timeline.Writes()[1]
	meta, err := timeline.ReadCommit(t.Context(), st, table.HoodieDir, tab.Props, w)
	if err != nil {
		t.Fatal(err)
	}
	return real{tab, files}, diffing.Request{
		Instants: []timeline.Instant{w}, Metas: []*timeline.CommitMetadata{meta},
		Incorporated: func(i timeline.Instant) bool { return i.Requested == bigAt(1) },
		Completion:   func(requested string) string { return requested },
		Targets:      []diffing.Target{{Index: "i", Vector: avrox.Vector{Column: "v", Dim: x.dim, Element: avrox.ElementFloat}, Metric: kernel.L2}},
	}
}

// footers reads the footers of both slices, so that what is counted afterwards is data.
func (x big) footers(t testing.TB, src real) {
	t.Helper()
	for _, n := range []string{bigAt(1), bigAt(3)} {
		s, ok, err := src.Slice(table.Group{Partition: "p", FileID: bigGroup}, func(i timeline.Instant) bool { return i.Requested <= n })
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if _, err := src.table.BaseRows(context.Background(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// discard counts changes; rows are those that only moved. Of the others it keeps the first ones as a sample.
type discard struct {
	rows, changed int64
	keep          int
	sample        []delta.Change
}

func (d *discard) Add(_ int, c diffing.Change) error {
	if c.Class == delta.LocatorRefresh {
		d.rows++
		return nil
	}
	d.changed++
	if len(d.sample) < d.keep {
		own := func(v *delta.Version) *delta.Version {
			if v == nil {
				return nil
			}
			return &delta.Version{Raw: bytes.Clone(v.Raw), Locator: v.Locator}
		}
		d.sample = append(d.sample, delta.Change{Class: c.Class, Key: string(c.Key), Old: own(c.Old), New: own(c.New), Instant: bigAt(3)})
	}
	return nil
}

func (d *discard) Reset() { *d = discard{keep: d.keep} }
