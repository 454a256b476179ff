package mdt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"
	"time"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/hfile"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
)

const viewSchema = `{"type":"record","name":"r","fields":[{"name":"v","type":"string"}]}`

// index is a small index under construction.
type index struct {
	t     testing.TB
	store *mem.Store
	place Place
	state *State
}

func newIndex(t testing.TB, groups int) *index {
	st := mem.New(t.Name())
	s := NewState()
	s.Indexes["x"] = &Index{Name: "x", Dir: PartitionDir("x"), FileGroups: groups}
	return &index{t: t, store: st, place: Inside(st), state: s}
}

func value(s string) []byte { return append(binary.AppendVarint(nil, int64(len(s))), s...) }

// content makes an HFile of logical keys and texts "key=text".
func (x *index) content(records []string) []byte {
	x.t.Helper()
	sort.Strings(records)
	w := hfile.NewWriter(hfile.Config{Schema: viewSchema, BlockSize: 100})
	for _, r := range records {
		k, v, _ := strings.Cut(r, "=")
		if err := w.Append(hfile.EncodeKey([]byte(k)), value(v)); err != nil {
			x.t.Fatal(err)
		}
	}
	b, err := w.Finish()
	if err != nil {
		x.t.Fatal(err)
	}
	return b
}

func (x *index) put(path string, b []byte, group int, id string, base bool) DataFile {
	x.store.Put(x.place.File(path), b, time.Time{})
	sum := sha256.Sum256(b)
	return DataFile{Path: path, Index: "x", Group: group, Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:]), ID: id, Base: base}
}

func (x *index) base(group int, id string, records ...string) {
	f := x.put(PartitionDir("x")+"/"+BaseName(group, id, "7427-1-0"), x.content(records), group, id, true)
	x.state.Base = append(x.state.Base, f)
}

// log adds a commit with one log file; a record without "=" is a delete.
func (x *index) log(group int, id string, records ...string) {
	var live []string
	var deletes []logfile.Delete
	for _, r := range records {
		if strings.Contains(r, "=") {
			live = append(live, r)
		} else {
			deletes = append(deletes, logfile.Delete{Key: string(hfile.EncodeKey([]byte(r))), Partition: "vector_index_x"})
		}
	}
	header := []logfile.HeaderEntry{{Key: logfile.InstantTime, Value: id}, {Key: logfile.SchemaKey, Value: viewSchema}}
	var b []byte
	if len(live) > 0 {
		b = logfile.AppendBlock(b, logfile.TypeHFile, header, x.content(live))
	}
	if len(deletes) > 0 {
		b = logfile.AppendBlock(b, logfile.TypeDelete, header, logfile.DeleteContent(nil, deletes))
	}
	f := x.put(PartitionDir("x")+"/"+LogName(group, id, "7427-1-0"), b, group, id, false)
	x.state.Commits = append(x.state.Commits, Commit{ID: id, Files: []DataFile{f}})
}

func (x *index) view() *View {
	x.t.Helper()
	v, err := OpenView(context.Background(), x.place, x.state, "x")
	if err != nil {
		x.t.Fatal(err)
	}
	return v
}

func scanText(v *View, prefix string) (string, error) {
	var out []string
	err := v.Scan(context.Background(), []byte(prefix), func(key []byte, rec avrox.Record) error {
		s, _ := rec.Str("v")
		out = append(out, string(key)+"="+s)
		return nil
	})
	return strings.Join(out, " "), err
}

func TestViewMerges(t *testing.T) {
	t.Parallel()
	x := newIndex(t, 2)
	x.base(0, "10", "a=base", "c=base", "e\xff=base", "g=base")
	x.base(1, "10", "b=base", "d=base")
	x.log(0, "12", "c=old", "e\xff=log", "z=only")
	x.log(0, "14", "c=new", "g")
	x.log(1, "14", "d", "f=one")
	x.log(1, "16", "d=again")
	// Commits in another order than their ids: the ids decide.
	x.state.Commits[0], x.state.Commits[1] = x.state.Commits[1], x.state.Commits[0]
	v := x.view()
	for prefix, want := range map[string]string{
		"":      "a=base b=base c=new d=again e\xff=log f=one z=only",
		"c":     "c=new",
		"e":     "e\xff=log",
		"e\xff": "e\xff=log",
		"g":     "",
		"d":     "d=again",
		"x":     "",
	} {
		if got, err := scanText(v, prefix); err != nil || got != want {
			t.Errorf("prefix %q: %q %v", prefix, got, err)
		}
	}
	keys := [][]byte{[]byte("z"), []byte("a"), []byte("c"), []byte("g"), []byte("d"), []byte("e\xff"), []byte("none"), []byte("a")}
	got, err := v.Get(context.Background(), keys)
	if err != nil || len(got) != 5 {
		t.Fatalf("%d entries, %v", len(got), err)
	}
	e := got["c"]
	rec, err := e.Record()
	if s, _ := rec.Str("v"); err != nil || s != "new" || e.ID != "14" || e.Base || string(e.Key) != "c" || e.Schema.Text() != viewSchema {
		t.Errorf("c: %+v %v", e, err)
	}
	if e := got["a"]; e.ID != "10" || !e.Base {
		t.Errorf("a: %+v", e)
	}
	if n := len(v.Files()); n != 6 {
		t.Errorf("%d files", n)
	}
	if err := v.Verify(context.Background()); err != nil {
		t.Error(err)
	}
	// With a placement only the named group is read.
	v = x.view()
	v.Locate = func(key []byte, n int) int { return int(key[0]+1) % n }
	v.LocatePrefix = func(p []byte, n int) int {
		if len(p) == 0 {
			return -1
		}
		return int(p[0]+1) % n
	}
	if got, err := v.Get(context.Background(), [][]byte{[]byte("a"), []byte("d")}); err != nil || len(got) != 2 {
		t.Errorf("placed: %v %v", got, err)
	}
	if got, err := scanText(v, "d"); err != nil || got != "d=again" {
		t.Errorf("placed scan: %q %v", got, err)
	}
	if got, err := scanText(v, ""); err != nil || len(strings.Fields(got)) != 7 {
		t.Errorf("placed scan of all: %q %v", got, err)
	}
	boom := errors.New("boom")
	if err := v.Scan(context.Background(), nil, func([]byte, avrox.Record) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("error of the callback: %v", err)
	}
}

func TestViewErrors(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	build := func() *index {
		x := newIndex(t, 2)
		x.base(0, "10", "a=1", "c=1")
		x.log(0, "12", "a=2")
		return x
	}
	check := func(name string, x *index, want error) {
		t.Helper()
		v, err := OpenView(ctx, x.place, x.state, "x")
		if err == nil {
			_, err = scanText(v, "")
		}
		if err == nil {
			err = v.Verify(ctx)
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		if storage.Hint(err) == "" && want == storage.ErrCorrupt && name != "group beyond" && name != "key in two groups" {
			t.Errorf("%s: no hint in %v", name, err)
		}
	}
	if _, err := OpenView(ctx, build().place, build().state, "y"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("unknown index: %v", err)
	}
	x := build()
	x.state.Indexes["x"].Dropped = true
	if _, err := OpenView(ctx, x.place, x.state, "x"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("dropped index: %v", err)
	}
	x = build()
	if err := x.store.Delete(ctx, x.place.File(x.state.Commits[0].Files[0].Path)); err != nil {
		t.Fatal(err)
	}
	check("missing log", x, storage.ErrNotFound)
	x = build()
	x.state.Base[0].Size++
	check("size", x, storage.ErrCorrupt)
	x = build()
	x.state.Base[0].SHA256 = strings.Repeat("0", 64)
	check("sha", x, storage.ErrCorrupt)
	x = build()
	x.state.Base[0].Group = 2
	check("group beyond", x, storage.ErrCorrupt)
	x = build()
	x.base(1, "10", "c=1", "d=1")
	check("key in two groups", x, storage.ErrCorrupt)
	if _, err := x.view().Get(ctx, [][]byte{[]byte("c")}); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("get of a key in two groups: %v", err)
	}
	x = build()
	x.state.Commits[0].Files[0].ID = "13"
	check("other id", x, storage.ErrCorrupt)
	// Damage under the right checksum of the file.
	x = build()
	f := x.state.Commits[0].Files[0]
	b, _, err := x.store.ReadFile(ctx, x.place.File(f.Path))
	if err != nil {
		t.Fatal(err)
	}
	x.state.Commits[0].Files[0] = x.put(f.Path, b[:len(b)-3], 0, "12", false)
	check("cut log", x, storage.ErrCorrupt)
	x = build()
	x.state.Commits[0].Files[0] = x.put(f.Path, logfile.AppendBlock(nil, logfile.TypeAvro, []logfile.HeaderEntry{{Key: logfile.InstantTime, Value: "12"}}, nil), 0, "12", false)
	check("block of another type", x, storage.ErrUnsupported)
	x = build()
	w := hfile.NewWriter(hfile.Config{})
	if b, err = w.Finish(); err != nil {
		t.Fatal(err)
	}
	x.state.Base[0] = x.put(x.state.Base[0].Path, b, 0, "10", true)
	check("no schema", x, storage.ErrCorrupt)
}

// TestViewOfLargeFiles reads files by ranges when they are too large to be read whole.
func TestViewOfLargeFiles(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	x := newIndex(t, 1)
	var records []string
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 200 {
		noise := make([]byte, 1000)
		for j := range noise {
			noise[j] = byte(rng.Uint32())
		}
		records = append(records, fmt.Sprintf("k%04d=%s", i, hex.EncodeToString(noise)))
	}
	x.base(0, "10", records...)
	x.log(0, "12", records[:190]...)
	view := func() *View {
		v := x.view()
		v.limit = 1 << 10
		return v
	}
	v := view()
	got, err := v.Get(ctx, [][]byte{[]byte("k0007"), []byte("k0195")})
	if err != nil || got["k0007"].ID != "12" || got["k0195"].ID != "10" {
		t.Fatalf("%v", err)
	}
	if s, err := scanText(v, "k019"); err != nil || len(strings.Fields(s)) != 10 {
		t.Errorf("%d records, %v", len(strings.Fields(s)), err)
	}
	if err := v.Verify(ctx); err != nil {
		t.Error(err)
	}
	x.state.Base[0].Size--
	if _, err := scanText(view(), ""); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("wrong size: %v", err)
	}
	x.state.Base[0].Path += "x"
	if _, err := scanText(view(), ""); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("missing: %v", err)
	}
}

// TestViewOfGoldenFiles reads the files that Hudi's own writers made as if they were ours.
func TestViewOfGoldenFiles(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const id = "20261130010203004"
	type line struct {
		Key    string `json:"hfile_key_hex"`
		Type   int32  `json:"type"`
		Branch string `json:"branch"`
	}
	var oracle []line
	for _, s := range strings.Split(strings.TrimSpace(string(testkit.File(t, "golden/mdt-files/records.jsonl.gz"))), "\n") {
		var l line
		if err := json.Unmarshal([]byte(s), &l); err != nil {
			t.Fatal(err)
		}
		oracle = append(oracle, l)
	}
	for name, base := range map[string]bool{
		"gzip/vector-index-0000-0_0-0-0_20261130010203004.hfile":     true,
		"none/vector-index-0000-0_0-0-0_20261130010203004.hfile.gz":  true,
		"gzip/.vector-index-0000-0_20261130010203004.log.1_0-0-0":    false,
		"none/.vector-index-0000-0_20261130010203004.log.1_0-0-0.gz": false,
	} {
		x := newIndex(t, 1)
		f := x.put("vector_index_x/file", testkit.File(t, "golden/mdt-files/"+name), 0, id, base)
		v, err := OpenFiles(ctx, x.place, []DataFile{f}, 1)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		var keys [][]byte
		err = v.Scan(ctx, nil, func(key []byte, rec avrox.Record) error {
			typ, _ := rec.Int("type")
			if hex.EncodeToString(hfile.EncodeKey(key)) != oracle[n].Key || typ != oracle[n].Type {
				return fmt.Errorf("record %d: key %x, type %d", n, key, typ)
			}
			if inner, ok := rec.Rec("VectorIndexMetadata"); !ok || len(inner) == 0 {
				return fmt.Errorf("record %d has no payload", n)
			}
			if n%601 == 0 {
				keys = append(keys, bytes.Clone(key))
			}
			n++
			return nil
		})
		if err != nil || n != len(oracle) || n != 6068 {
			t.Fatalf("%s: %d records, %v", name, n, err)
		}
		got, err := v.Get(ctx, keys)
		if err != nil || len(got) != len(keys) {
			t.Errorf("%s: %d of %d keys, %v", name, len(got), len(keys), err)
		}
	}
}
