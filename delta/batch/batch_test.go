package batch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidemark/delta"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
)

// parity routes a vector to cluster v[0] and encodes it with 4 bits; it counts.
type parity struct {
	enc    *rabitq.Encoder
	encode chan struct{}
}

func (*parity) Cluster(v []float32) int { return int(v[0]) }

func (p *parity) Encode(v []float32, cluster int) rabitq.Code {
	select {
	case p.encode <- struct{}{}:
	default:
	}
	return p.enc.Encode(v, nil)
}

func newBuilder() (*delta.Builder, *parity) {
	p := &parity{rabitq.NewEncoder(rabitq.NewRotation(2, 42), 4), make(chan struct{}, 1<<20)}
	return &delta.Builder{Generation: 1, Router: p, Segments: []int{1, 3, 1, 64}, Groups: 3}, p
}

func open(t testing.TB, cfg Config) *Batch {
	t.Helper()
	cfg.Builder, _ = newBuilder()
	cfg.Element, cfg.Dim = kernel.Float, 2
	b := New(cfg)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// ver is a row of a cluster with one of several vectors there, at a position.
func ver(cluster, which int, pos int64) *delta.Version {
	raw := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(cluster)))
	return &delta.Version{Raw: binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(which))),
		Locator: delta.Locator{Partition: "p", FileID: "f", BaseInstant: "100", Position: pos}}
}

// history makes commits of random changes, some of them against what was before, as undetected copies of a key give them.
func history(r *rand.Rand, keys, commits int) (out [][]delta.Change) {
	now := map[string]*delta.Version{}
	posting := func() *delta.Version {
		return &delta.Version{Locator: delta.Locator{FileID: "gone"}, Cluster: r.IntN(4), Routed: true}
	}
	some := func() *delta.Version {
		if r.IntN(12) == 0 {
			return posting()
		}
		return ver(r.IntN(4), r.IntN(2), int64(r.IntN(2))-1)
	}
	for i := range keys {
		if r.IntN(2) == 0 {
			now[fmt.Sprint("k", i)] = some()
		}
	}
	for commit := range commits {
		var list []delta.Change
		for _, i := range r.Perm(keys) {
			key := fmt.Sprint("k", i)
			c := delta.Change{Class: delta.VectorUpdate, Key: key, Old: now[key], Instant: fmt.Sprint(100 + commit)}
			switch r.IntN(5) {
			case 0:
				continue
			case 1:
				c.Class = delta.Delete
			case 2:
				c.New = ver(r.IntN(4), r.IntN(2), int64(r.IntN(2))-1)
			case 3:
				if c.Old == nil || c.Old.Raw == nil {
					continue
				}
				moved := *c.Old
				moved.Locator.Position = int64(r.IntN(3)) - 1
				c.New, c.Class = &moved, delta.LocatorRefresh
			case 4:
				c.Class, c.New = delta.Unchanged, c.Old
			}
			if c.Old == nil && c.New == nil {
				c.Class = delta.Unindexable
			}
			if c.Class != delta.Unchanged && c.Class != delta.Unindexable {
				if r.IntN(20) == 0 && c.New != nil {
					c.Old, c.Class = some(), delta.VectorUpdate
				}
				if r.IntN(20) == 0 {
					c.Also = []*delta.Version{posting(), posting()}
				}
			}
			list = append(list, c)
			now[key] = c.New
		}
		out = append(out, list)
	}
	return out
}

// plain is the net effect of changes and what it writes, all in memory and one by one: first old, last new, by key.
func plain(t testing.TB, all [][]delta.Change) (records []string, counters map[int]delta.Counters) {
	t.Helper()
	b, _ := newBuilder()
	net := map[string]delta.Change{}
	for _, list := range all {
		for _, c := range list {
			if c.Class == delta.Unchanged || c.Class == delta.Unindexable {
				continue
			}
			if old, seen := net[c.Key]; seen {
				c.Old, c.Also = old.Old, slices.Concat(old.Also, c.Also)
			}
			net[c.Key] = c
		}
	}
	vector := func(v *delta.Version) []float32 {
		out := make([]float32, 2)
		kernel.ToFloat32(out, v.Raw, kernel.Float)
		return out
	}
	cluster := func(v *delta.Version) int {
		if v == nil {
			return -1
		}
		if v.Routed {
			return v.Cluster
		}
		return b.Router.Cluster(vector(v))
	}
	counters = map[int]delta.Counters{}
	var kvs []delta.KV
	put := func(key string, cluster int, r delta.Record, add delta.Counters) {
		k := delta.PostingKey(1, uint32(cluster), uint16(delta.SegmentOf(key, b.Segments[cluster])), key)
		kvs = append(kvs, delta.KV{Key: k, Value: delta.EncodeRecord(nil, r), Group: delta.FileGroup(k, b.Groups)})
		counters[cluster] = counters[cluster].Plus(add)
	}
	for _, key := range slices.Sorted(maps.Keys(net)) {
		c := net[key]
		same := c.Old != nil && c.New != nil && c.Old.Raw != nil && c.New.Raw != nil && bytes.Equal(c.Old.Raw, c.New.Raw) && c.Old.Locator == c.New.Locator
		if same || c.Old == nil && c.New == nil {
			continue
		}
		was, is := cluster(c.Old), cluster(c.New)
		tomb := &delta.Tombstone{DeleteInstant: c.Instant, DeleteReason: delta.ReasonManual}
		if c.Old != nil && was != is {
			put(key, was, tomb, delta.Counters{Live: -1, Tombstone: 1})
		}
		if c.New != nil {
			add := delta.Counters{Delta: 1}
			if was != is {
				add.Live = 1
			}
			put(key, is, delta.NewPosting(key, c.New.Locator, b.Router.Encode(vector(c.New), is)), add)
		}
		gone := []int{was, is}
		for _, v := range c.Also {
			if at := cluster(v); !slices.Contains(gone, at) {
				gone = append(gone, at)
				put(key, at, tomb, delta.Counters{Live: -1, Tombstone: 1})
			}
		}
	}
	delta.SortKV(kvs)
	for _, r := range kvs {
		records = append(records, line(r))
	}
	return records, counters
}

func line(r delta.KV) string { return fmt.Sprintf("%d %x %x", r.Group, r.Key, r.Value) }

// add hands changes to a batch as a comparison does.
func add(t testing.TB, b *Batch, list []delta.Change) {
	t.Helper()
	for _, c := range list {
		var err error
		if c.Also != nil {
			err = b.AddChange(t.Context(), c)
		} else {
			key := []byte(c.Key)
			old, cur := clone(c.Old), clone(c.New)
			err = b.Add(t.Context(), c.Class, key, old, cur, c.Instant)
			for _, v := range []*delta.Version{old, cur} { // views end with the call
				if v != nil {
					clear(v.Raw)
				}
			}
			clear(key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func clone(v *delta.Version) *delta.Version {
	if v == nil {
		return nil
	}
	c := *v
	c.Raw = bytes.Clone(v.Raw)
	return &c
}

// lines walks the records of a finished batch.
func lines(t testing.TB, b *Batch, more []delta.KV) (out []string) {
	t.Helper()
	for _, f := range b.Files(more) {
		n := 0
		for r, err := range f.Records {
			if err != nil {
				t.Fatal(err)
			}
			if r.Group != f.Group {
				t.Errorf("%x of group %d in file of group %d", r.Key, r.Group, f.Group)
			}
			out = append(out, line(r))
			n++
		}
		if n == 0 {
			t.Errorf("no records in group %d", f.Group)
		}
	}
	return out
}

func TestRecordsAreTheNetEffect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		all := history(r, 1+r.IntN(12), 1+r.IntN(6))
		want, counters := plain(t, all)
		for _, memory := range []int64{1, 3 * 500, 3 * 3000, 3 * 6000, 0} {
			b := open(t, Config{Memory: memory, TempDir: dir, Workers: 1 + r.IntN(3)})
			for _, list := range all {
				b.Begin()
				for r.IntN(3) == 0 { // found wrong half way, and once more
					size := b.Size()
					add(t, b, history(r, 12, 1)[0])
					if r.IntN(2) == 0 {
						add(t, b, list[:r.IntN(len(list)+1)])
					}
					b.Reset()
					if b.Size() != size {
						t.Fatalf("seed %d: size %d after a reset, %d before", seed, b.Size(), size)
					}
				}
				add(t, b, list)
				if r.IntN(4) == 0 {
					if err := b.Net(t.Context(), func([]byte, *delta.Net) error { return nil }); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := b.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := lines(t, b, nil); !slices.Equal(got, want) {
					t.Fatalf("seed %d, memory %d: got\n%s\nwant\n%s", seed, memory, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
			if !maps.Equal(b.touched, counters) {
				t.Fatalf("seed %d, memory %d: counters %v, want %v", seed, memory, b.touched, counters)
			}
			sum := Count{}
			for _, c := range counters {
				sum.Deltas += c.Delta
				sum.Tombstones += c.Tombstone
			}
			if b.Count() != sum {
				t.Fatalf("seed %d: %+v, want %+v", seed, b.Count(), sum)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

// TestNetShowsTheState: the net changes so far are what became of the keys.
func TestNetShowsTheState(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := open(t, Config{Memory: []int64{1, 0}[seed%2]})
		now := map[string]*delta.Version{}
		for _, list := range history(r, 8, 4) {
			b.Begin()
			add(t, b, list)
			for _, c := range list {
				now[c.Key] = c.New
			}
			last := ""
			err := b.Net(t.Context(), func(key []byte, n *delta.Net) error {
				if string(key) <= last {
					t.Fatalf("seed %d: %s after %s", seed, key, last)
				}
				last = string(key)
				want := now[last]
				if (want == nil) != (n.New.Cluster < 0) || want != nil && want.Raw != nil && float32(n.New.Cluster) != math.Float32frombits(binary.LittleEndian.Uint32(want.Raw)) {
					t.Fatalf("seed %d: %s is %+v, want %+v", seed, key, n.New, want)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestEncodesOnce: a row that several instants changed is encoded once as long as its changes wait together, and a row that only moved
// is routed once.
func TestEncodesOnce(t *testing.T) {
	t.Parallel()
	b := open(t, Config{})
	p := b.cfg.Builder.Router.(*parity)
	for n := range 5 {
		b.Begin()
		for i := range 100 {
			old, cur := ver(1, 0, int64(n)), ver(1, 0, int64(n+1))
			if err := b.Add(t.Context(), delta.LocatorRefresh, fmt.Append(nil, i), old, cur, fmt.Sprint(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(p.encode) != 100 || b.Count().Deltas != 100 {
		t.Errorf("%d rows encoded, %+v", len(p.encode), b.Count())
	}
}

func TestMoreRecords(t *testing.T) {
	t.Parallel()
	for _, memory := range []int64{1, 0} {
		b := open(t, Config{Memory: memory})
		add(t, b, history(rand.New(rand.NewPCG(7, 7)), 30, 1)[0])
		if err := b.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		stats := b.Stats(func(int) delta.Counters { return delta.Counters{Live: 10, Delta: 5, Tombstone: 1} }, 500)
		more := append(stats, delta.KV{Key: []byte{0}, Group: 2}, delta.KV{Key: []byte{0xff}, Group: 0}, delta.KV{Key: []byte{0xff}, Group: 9})
		want := lines(t, b, nil)
		for _, r := range more {
			want = append(want, line(r))
		}
		got := lines(t, b, more)
		if slices.SortFunc(want, strings.Compare); !slices.Equal(got, want) || !slices.IsSorted(got) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if !slices.IsSortedFunc(stats, func(a, b delta.KV) int { return cmp.Compare(string(a.Key), string(b.Key)) }) {
			t.Error("stats are not by cluster")
		}
	}
}

func TestCountersAreHints(t *testing.T) {
	t.Parallel()
	b := open(t, Config{})
	add(t, b, []delta.Change{{Class: delta.Delete, Key: "k", Old: ver(0, 0, 7), Instant: "42"}})
	if err := b.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	dec, err := delta.NewDecoder(delta.SchemaJSON)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := dec.Decode(b.Stats(func(int) delta.Counters { return delta.Counters{} }, 1)[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	want := delta.Counters{Live: 0, Delta: 0, Tombstone: 1}
	if got := delta.CountersOf(rec.(*delta.ClusterStats)); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]delta.Change{
		"old cluster unknown":         {Class: delta.VectorUpdate, Key: "k", Old: &delta.Version{}, New: ver(0, 0, 1)},
		"new vector missing":          {Class: delta.Insert, Key: "k", New: &delta.Version{Routed: true}},
		"vector of another size":      {Class: delta.Insert, Key: "k", New: &delta.Version{Raw: []byte{1}}},
		"cluster beyond the last one": {Class: delta.Insert, Key: "k", New: ver(4, 0, 1)},
		"cluster below 0":             {Class: delta.Delete, Key: "k", Old: &delta.Version{Cluster: -1, Routed: true}},
	} {
		b := open(t, Config{})
		if err := errors.Join(b.AddChange(t.Context(), c), b.Finish(t.Context())); !errors.Is(err, storage.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	b := open(t, Config{})
	add(t, b, history(rand.New(rand.NewPCG(7, 7)), 30, 1)[0])
	cancel()
	if err := b.Finish(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	b = open(t, Config{Memory: 1, TempDir: missing})
	var err error
	for i := 0; i < 10 && err == nil; i++ {
		err = b.Add(t.Context(), delta.Insert, fmt.Append(nil, i), nil, ver(1, 0, 1), "1")
	}
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) || storage.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
}

// TestHoldsItsBound counts what a batch holds while a large one goes through it.
func TestHoldsItsBound(t *testing.T) {
	t.Parallel()
	const memory, rows = 300_000, 20_000
	b := open(t, Config{Memory: memory, TempDir: t.TempDir(), Workers: 2})
	held := func(when string) {
		t.Helper()
		n := b.held + b.nets.Held()
		if b.records != nil {
			n += b.records.Held()
		}
		if n > memory {
			t.Fatalf("%s: %d bytes, bound %d", when, n, memory)
		}
	}
	b.Begin()
	for i := range rows {
		if err := b.Add(t.Context(), delta.LocatorRefresh, fmt.Appendf(nil, "%08x", uint32(i)*2654435761), ver(i%4, 0, 1), ver(i%4, 0, 2), "1"); err != nil {
			t.Fatal(err)
		}
		held("add")
	}
	if err := b.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range b.Files(nil) {
		for _, err := range f.Records {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n%1000 == 0 {
				held("walk")
			}
		}
	}
	if n != rows || b.Spilled() < 5*memory {
		t.Errorf("%d records, %d bytes spilled", n, b.Spilled())
	}
}
