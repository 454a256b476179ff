package hudimodel_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"strings"
	"testing"

	"tidemark/coverage"
	"tidemark/indexer"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/hfile"
	"tidemark/internal/hudi/hudimodel"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
)

// victim is a table with an index of its first commit and a second commit that is due.
type victim struct {
	*history
	due *hudimodel.Txn
}

// newVictim writes the due commit with write; the base file of group eu/g-0 holds the keys a, b and c.
func newVictim(t *testing.T, cfg hudimodel.Config, metric string, write func(due *hudimodel.Txn)) *victim {
	t.Helper()
	w := hudimodel.New(t, cfg)
	v := &victim{history: follow(t.Context(), t, w)}
	action := map[bool]string{true: "deltacommit", false: "commit"}[cfg.MoR]
	first := w.Begin(action, "INSERT")
	first.Base("eu", "g-0", hudimodel.Row{Key: "a", TS: 5, Vec: v.vector(1, 0)}, hudimodel.Row{Key: "b", TS: 5, Vec: v.vector(-2, 0)}, hudimodel.Row{Key: "c", TS: 5, Vec: v.vector(0, 3)})
	first.Complete()
	v.create(first, map[string]string{"vector.metric": metric, "vector.num_clusters": "2"})
	v.due = w.Begin(action, "UPSERT")
	write(v.due)
	v.due.Complete()
	return v
}

// vector is the stored form of two components.
func (v *victim) vector(x, y float64) []byte {
	var b []byte
	for _, f := range []float64{x, y} {
		switch v.w.Element {
		case avrox.ElementDouble:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
		case avrox.ElementInt8:
			b = append(b, byte(int8(f)))
		default:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(f)))
		}
	}
	return b
}

// file is the path of the due commit's file of that ending.
func (v *victim) file(ending string) string {
	v.Helper()
	for _, p := range v.w.Store.Paths() {
		if strings.Contains(p, v.due.Requested) && strings.HasSuffix(p, ending) || ending == ".log" && strings.Contains(p, v.due.Requested+".log.") {
			return p
		}
	}
	v.Fatalf("the commit has no file %s", ending)
	return ""
}

// change replaces the content of a file.
func (v *victim) change(path string, f func(b []byte) []byte) {
	v.Helper()
	b, info, err := v.w.Store.ReadFile(v.ctx, path)
	if err != nil {
		v.Fatalf("%v", err)
	}
	v.w.Store.Put(path, f(bytes.Clone(b)), info.ModTime)
}

// altered is upsert with a first block that is changed before it is written.
func altered(f func(b *logfile.Block), blocks ...hudimodel.Block) func(*hudimodel.Txn) {
	return func(t *hudimodel.Txn) {
		t.Alter = func(content []byte) []byte {
			for b := range logfile.Blocks(context.Background(), storage.BytesSource(content)) {
				f(&b)
				return logfile.AppendBlock(nil, b.Type, b.Entries, b.Content)
			}
			panic("no block")
		}
		upsert(blocks...)(t)
	}
}

// records decodes an Avro block for changing it.
func records(b *logfile.Block) [][]byte {
	recs, err := b.AvroRecords()
	if err != nil {
		panic(err)
	}
	return recs
}

func nothing(*victim) {}

// held syncs and expects that the fault is told by its kind and nothing of it covered.
func (v *victim) held(kind error, names string) {
	v.Helper()
	r, err := indexer.Sync(v.ctx, v.place, indexer.SyncOptions{})
	if !errors.Is(err, kind) || r.Processed != 0 {
		v.Fatalf("covered %d instants, %v; want %v", r.Processed, err, kind)
	}
	if !strings.Contains(err.Error(), names) && !strings.Contains(err.Error(), v.due.Requested) {
		v.Fatalf("%v names neither %s nor the instant", err, names)
	}
	list, err := coverage.Markers(v.ctx, coverage.Deps{Place: v.place}, "", 0)
	if err != nil || len(list) != 0 {
		v.Fatalf("markers %+v, %v", list, err)
	}
	s, err := coverage.Status(v.ctx, coverage.Deps{Place: v.place})
	if err != nil || s[0].Fresh || s[0].LagInstants != nil && *s[0].LagInstants != 1 || s[0].Frontier != nil && s[0].Frontier.Requested >= v.due.Requested {
		v.Fatalf("status %+v, %v", s, err)
	}
}

// counted syncs and expects that the commit is covered and its marker says how many rows are unindexable, and why.
func (v *victim) counted(reasons map[string]int64) {
	v.Helper()
	if r, err := indexer.Sync(v.ctx, v.place, indexer.SyncOptions{}); err != nil || r.Processed != 1 {
		v.Fatalf("%+v, %v", r, err)
	}
	list, err := coverage.Markers(v.ctx, coverage.Deps{Place: v.place}, "", 0)
	if err != nil || len(list) != 1 {
		v.Fatalf("markers %+v, %v", list, err)
	}
	n := int64(0)
	for _, c := range reasons {
		n += c
	}
	if list[0].Counts["unindexable"] != n || !maps.Equal(list[0].Reasons, reasons) {
		v.Fatalf("marker %+v, want reasons %v", list[0], reasons)
	}
	rep, err := coverage.Verify(v.ctx, coverage.Deps{Place: v.place}, coverage.VerifyRequest{})
	if err != nil || !rep.OK || rep.Unindexable != n {
		v.Fatalf("verify %+v, %v", rep, err)
	}
}

func upsert(blocks ...hudimodel.Block) func(*hudimodel.Txn) {
	return func(t *hudimodel.Txn) { t.Log("eu", "g-0", blocks...) }
}

// Every kind of file that cannot be read holds the frontier: no marker, an error that names file or instant.
func TestFaultsOfFilesHoldTheFrontier(t *testing.T) {
	t.Parallel()
	row := hudimodel.Row{Key: "a", TS: 9, Vec: hudimodel.Hex("0000004000000040")}
	of := func(kind hudimodel.Kind) hudimodel.Block {
		return hudimodel.Block{Kind: kind, Rows: []hudimodel.Row{row, {Key: "b", TS: 9, Vec: row.Vec}}}
	}
	removed := hudimodel.Block{Kind: hudimodel.Deletes, Keys: []hudimodel.Delete{{Key: "a", Ordered: true, TS: 9}}}
	flip := func(at func(n int) int) func(b []byte) []byte {
		return func(b []byte) []byte { b[at(len(b))] ^= 0xff; return b }
	}
	cut := func(n func(n int) int) func(b []byte) []byte {
		return func(b []byte) []byte { return b[:n(len(b))] }
	}
	mor, event := hudimodel.Config{MoR: true}, hudimodel.Config{MoR: true, EventTime: true}
	base := func(due *hudimodel.Txn) { due.Base("eu", "g-0", row) }
	commit := ".deltacommit"
	corrupt, unsupported := storage.ErrCorrupt, storage.ErrUnsupported
	for _, test := range []struct {
		name  string
		cfg   hudimodel.Config
		write func(*hudimodel.Txn)
		plant func(v *victim)
		kind  error
		names string
	}{
		{"log: magic flipped", mor, altered(func(b *logfile.Block) { b.Type = 9 }, of(hudimodel.Avro)), func(v *victim) { v.change(v.file(".log"), flip(func(int) int { return 2 })) }, corrupt, ".log."},
		{"log: size flipped", mor, upsert(of(hudimodel.Avro)), func(v *victim) { v.change(v.file(".log"), flip(func(int) int { return 12 })) }, corrupt, ".log."},
		{"log: trailing length flipped", mor, upsert(of(hudimodel.Avro)), func(v *victim) { v.change(v.file(".log"), flip(func(n int) int { return n - 2 })) }, corrupt, ".log."},
		{"log: cut in the block", mor, upsert(of(hudimodel.Avro)), func(v *victim) { v.change(v.file(".log"), cut(func(n int) int { return n / 2 })) }, corrupt, ".log."},
		{"log: cut to a few bytes", mor, upsert(of(hudimodel.Avro)), func(v *victim) { v.change(v.file(".log"), cut(func(int) int { return 4 })) }, corrupt, ".log."},
		{"log: second block cut", mor, upsert(of(hudimodel.Avro), removed), func(v *victim) { v.change(v.file(".log"), cut(func(n int) int { return n - 20 })) }, corrupt, ".log."},
		{"log: empty", mor, upsert(of(hudimodel.Avro)), func(v *victim) { v.change(v.file(".log"), cut(func(int) int { return 0 })) }, corrupt, ".log."},
		{"log: missing", mor, upsert(of(hudimodel.Avro)), func(v *victim) { v.w.Store.Delete(v.ctx, v.file(".log")) }, corrupt, "g-0"},
		{"log: unknown block type", mor, altered(func(b *logfile.Block) { b.Type = 9 }, of(hudimodel.Avro)), nothing, unsupported, ".log."},
		{"log: block of another instant", mor, altered(func(b *logfile.Block) { b.Entries[0].Value = "20200101000000000" }, of(hudimodel.Avro)), nothing, corrupt, ".log."},
		{"log: no schema", mor, altered(func(b *logfile.Block) { b.Entries = b.Entries[:1] }, of(hudimodel.Avro)), nothing, corrupt, ".log."},
		{"log: schema that is no JSON", mor, altered(func(b *logfile.Block) { b.Entries[1].Value = "{" }, of(hudimodel.Avro)), nothing, corrupt, ".log."},
		{"Avro: record cut", mor, altered(func(b *logfile.Block) {
			recs := records(b)
			recs[1] = recs[1][:len(recs[1])-3]
			b.Content = logfile.AvroContent(nil, recs)
		}, of(hudimodel.Avro)), nothing, corrupt, ".log."},
		{"Avro: record of an impossible branch", mor, altered(func(b *logfile.Block) {
			recs := records(b)
			recs[0][0] = 0x7e
			b.Content = logfile.AvroContent(nil, recs)
		}, of(hudimodel.Avro)), nothing, corrupt, ".log."},
		{"Avro: more records announced than there are", mor, altered(func(b *logfile.Block) { binary.BigEndian.PutUint32(b.Content[4:], 1<<30) }, of(hudimodel.Avro)), nothing, corrupt, ".log."},
		{"Avro: bytes behind the records", mor, altered(func(b *logfile.Block) { b.Content = append(b.Content, 1, 2, 3) }, of(hudimodel.Avro)), nothing, corrupt, ".log."},
		{"Avro: record without a key", mor, altered(func(b *logfile.Block) {
			b.Entries[1].Value = strings.Replace(b.Entries[1].Value, `"_hoodie_record_key"`, `"_hoodie_record_kex"`, 1)
		}, of(hudimodel.Avro)), nothing, corrupt, ".log."},
		{"Avro: vectors of another width", mor, altered(func(b *logfile.Block) {
			b.Entries[1].Value = strings.Replace(b.Entries[1].Value, `"size":8,`, `"size":4,`, 1)
		}, of(hudimodel.Avro)), nothing, unsupported, ".log."},
		{"HFile block: flipped", mor, altered(func(b *logfile.Block) { b.Content[40] ^= 1 }, of(hudimodel.HFile)), nothing, corrupt, ".log."},
		{"HFile block: no HFile", mor, altered(func(b *logfile.Block) { b.Content = []byte("no HFile at all") }, of(hudimodel.HFile)), nothing, corrupt, ".log."},
		{"HFile block: value cut", mor, altered(func(b *logfile.Block) {
			w := hfile.NewWriter(hfile.Config{Schema: b.Schema()})
			if err := w.Append([]byte("a"), []byte{2, 4}); err != nil {
				panic(err)
			}
			b.Content, _ = w.Finish()
		}, of(hudimodel.HFile)), nothing, corrupt, ".log."},
		{"Parquet block: footer flipped", mor, altered(func(b *logfile.Block) { b.Content[len(b.Content)-9] ^= 0xff }, of(hudimodel.Parquet)), nothing, corrupt, ".log."},
		{"Parquet block: cut", mor, altered(func(b *logfile.Block) { b.Content = b.Content[:len(b.Content)-1] }, of(hudimodel.Parquet)), nothing, corrupt, ".log."},
		{"delete block: list cut", mor, altered(func(b *logfile.Block) { b.Content = b.Content[:len(b.Content)-1] }, removed), nothing, corrupt, ".log."},
		{"delete block: Java's serialisation", mor, altered(func(b *logfile.Block) { b.Content[3] = 2 }, removed), nothing, unsupported, ".log."},
		{"delete block: ordering of an unknown type", mor, altered(func(b *logfile.Block) { b.Content = bytes.Replace(b.Content, []byte{6, 18}, []byte{26, 18}, 1) }, removed), nothing, unsupported, ".log."},
		{"delete block: entry without a key", mor, altered(func(b *logfile.Block) {
			b.Content = []byte{0, 0, 0, 3, 0, 0, 0, 6, 2, 0, 0, 0, 0, 0}
			b.Content[7] = 5
			b.Content = b.Content[:13]
		}, removed), nothing, corrupt, ".log."},
		{"positions that are no bitmap", mor, altered(func(b *logfile.Block) {
			b.Entries = append(b.Entries, logfile.HeaderEntry{Key: logfile.RecordPositions, Value: "????"}, logfile.HeaderEntry{Key: logfile.PositionsBaseInstant, Value: "1"})
		}, of(hudimodel.Avro)), nothing, corrupt, ".log."},
		{"partial update that nothing completes", mor, altered(func(b *logfile.Block) {
			b.Entries[1].Value = strings.Replace(b.Entries[1].Value, `{"name":"ts","type":["null","long"],"default":null}`, `{"name":"ts","type":["null","int"],"default":null}`, 1)
		}, hudimodel.Block{Rows: []hudimodel.Row{{Key: "z", TS: 9}}, Partial: []string{"ts", "price"}}), nothing, corrupt, "g-0"},
		{"ordering of another type", event, altered(func(b *logfile.Block) {
			b.Entries[1].Value = strings.Replace(b.Entries[1].Value, `{"name":"ts","type":["null","long"],"default":null}`, `{"name":"ts","type":["null","int"],"default":null}`, 1)
		}, of(hudimodel.Avro)), nothing, unsupported, "g-0"},
		{"base file: missing", mor, base, func(v *victim) { v.w.Store.Delete(v.ctx, v.file(".parquet")) }, corrupt, "g-0"},
		{"base file of an append: missing", mor, upsert(of(hudimodel.Avro)), func(v *victim) {
			for _, p := range v.w.Store.Paths() {
				if strings.HasSuffix(p, ".parquet") {
					v.w.Store.Delete(v.ctx, p)
				}
			}
		}, corrupt, "g-0"},
		{"base file: empty", mor, base, func(v *victim) { v.change(v.file(".parquet"), cut(func(int) int { return 0 })) }, corrupt, ".parquet"},
		{"base file: cut", mor, base, func(v *victim) { v.change(v.file(".parquet"), cut(func(n int) int { return n - 1 })) }, corrupt, ".parquet"},
		{"base file: footer length flipped", mor, base, func(v *victim) { v.change(v.file(".parquet"), flip(func(n int) int { return n - 7 })) }, corrupt, ".parquet"},
		{"base file: footer flipped", mor, base, func(v *victim) { v.change(v.file(".parquet"), flip(func(n int) int { return n - 40 })) }, corrupt, ".parquet"},
		{"commit: no bytes", mor, base, func(v *victim) { v.change(v.file(commit), cut(func(int) int { return 0 })) }, corrupt, ""},
		{"commit: cut", mor, base, func(v *victim) { v.change(v.file(commit), cut(func(n int) int { return n * 2 / 3 })) }, corrupt, ""},
		{"commit: flipped", mor, base, func(v *victim) { v.change(v.file(commit), flip(func(n int) int { return n - 5 })) }, corrupt, ""},
		{"commit: no container", mor, base, func(v *victim) { v.change(v.file(commit), func([]byte) []byte { return []byte("{") }) }, corrupt, ""},
		{"properties: a custom merger", mor, upsert(of(hudimodel.Avro)), func(v *victim) {
			v.change(".hoodie/hoodie.properties", func(b []byte) []byte {
				return bytes.Replace(b, []byte("COMMIT_TIME_ORDERING"), []byte("CUSTOM"), 1)
			})
		}, unsupported, "CUSTOM"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t, test.cfg, "l2", test.write)
			test.plant(v)
			v.held(test.kind, test.names)
		})
	}
}

// Every value that cannot be indexed is counted by its reason in the marker of a covered commit, whether the row came in a log or in a
// base file, and whether it was indexable before.
func TestFaultsOfRowsAreCounted(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	float, double := avrox.ElementFloat, avrox.ElementDouble
	for _, test := range []struct {
		name    string
		element avrox.Element
		metric  string
		vec     func(v *victim) []byte
		reason  string
	}{
		{"NULL", float, "l2", func(*victim) []byte { return nil }, kernel.ReasonNull},
		{"NaN", float, "l2", func(v *victim) []byte { return v.vector(nan, 1) }, kernel.ReasonNonFinite},
		{"NaN with a payload", float, "dot_product", func(*victim) []byte { return hudimodel.Hex("0100c07f0000803f") }, kernel.ReasonNonFinite},
		{"infinity", float, "cosine", func(v *victim) []byte { return v.vector(1, inf) }, kernel.ReasonNonFinite},
		{"negative infinity", double, "l2", func(v *victim) []byte { return v.vector(-inf, 1) }, kernel.ReasonNonFinite},
		{"beyond float32", double, "l2", func(v *victim) []byte { return v.vector(1e300, 1) }, kernel.ReasonNonFinite},
		{"zero", float, "cosine", func(v *victim) []byte { return v.vector(0, 0) }, kernel.ReasonZero},
		{"negative zero", float, "cosine", func(v *victim) []byte { return v.vector(math.Copysign(0, -1), 0) }, kernel.ReasonZero},
		{"below float32", double, "cosine", func(v *victim) []byte { return v.vector(1e-300, 0) }, kernel.ReasonZero},
		{"zero INT8", avrox.ElementInt8, "cosine", func(v *victim) []byte { return v.vector(0, 0) }, kernel.ReasonZero},
	} {
		for _, mor := range []bool{true, false} {
			t.Run(test.name+map[bool]string{true: " in a log", false: " in a base file"}[mor], func(t *testing.T) {
				t.Parallel()
				v := newVictim(t, hudimodel.Config{MoR: mor, Element: test.element}, test.metric, func(due *hudimodel.Txn) {
					of := &victim{history: &history{w: hudimodel.New(t, hudimodel.Config{Element: test.element})}}
					bad := test.vec(of)
					rows := []hudimodel.Row{{Key: "a", TS: 9, Vec: bad}, {Key: "n", TS: 9, Vec: bad}} // one was indexable, one is new
					if mor {
						upsert(hudimodel.Block{Rows: rows})(due)
						return
					}
					due.Base("eu", "g-0", append(rows, hudimodel.Row{Key: "b", TS: 5, Vec: of.vector(-2, 0)})...)
				})
				v.counted(map[string]int64{test.reason: 2})
			})
		}
	}
	// A column may be bytes in a log: then a value can be of any size.
	for _, size := range []int{0, 1, 7, 9, 4000} {
		v := newVictim(t, hudimodel.Config{MoR: true}, "l2", altered(func(b *logfile.Block) {
			at := strings.Index(b.Entries[1].Value, `{"type":"fixed"`)
			end := at + strings.IndexByte(b.Entries[1].Value[at:], '}') + 1
			b.Entries[1].Value = b.Entries[1].Value[:at] + `"bytes"` + b.Entries[1].Value[end:]
			recs := records(b)
			was := append([]byte{2}, make([]byte, 8)...) // the union's branch and the bytes
			is := append(binary.AppendVarint([]byte{2}, int64(size)), make([]byte, size)...)
			rec := bytes.Replace(recs[0], was, is, 1)
			if bytes.Equal(rec, recs[0]) {
				t.Fatal("no vector in the record")
			}
			b.Content = logfile.AvroContent(nil, [][]byte{rec})
		}, hudimodel.Block{Rows: []hudimodel.Row{{Key: "a", TS: 9, Vec: make([]byte, 8)}}}))
		v.counted(map[string]int64{kernel.ReasonSize: 1})
	}
}
