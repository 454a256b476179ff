package diffing_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/delta"
	"tidemark/diffing"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
	"tidemark/timeline"
)

// fake is a table of a few instants: for each group the rows that it shows once an instant is in.
type fake struct {
	slices map[table.Group]map[string][]table.Row // by requested time of the instant that made the slice
	gone   map[string]bool                        // instants whose slices are no longer there
	lost   map[string]bool                        // instants whose files vanish while they are read
}

var order = []timeline.Instant{commit("1"), commit("2"), commit("3"), commit("4")}

func commit(at string) timeline.Instant {
	return timeline.Instant{Requested: at, Completed: at + "5", Action: timeline.Commit, State: timeline.Completed}
}

func (f fake) Slice(g table.Group, in func(timeline.Instant) bool) (table.Slice, bool, error) {
	found := ""
	for _, i := range order {
		if _, ok := f.slices[g][i.Requested]; ok && in(i) {
			found = i.Requested
		}
	}
	if found == "" {
		return table.Slice{}, false, nil
	}
	if f.gone[found] {
		return table.Slice{}, false, fmt.Errorf("slice %s: %w", found, table.ErrGone)
	}
	return table.Slice{Group: g, Instant: found}, true, nil
}

func (f fake) readMerged(s table.Slice, fn func(table.Row) error) error {
	for _, r := range f.slices[s.Group][s.Instant] {
		if err := fn(r); err != nil {
			return err
		}
		if f.lost[s.Instant] {
			return fmt.Errorf("read %s: %w", s.Instant, storage.ErrNotFound)
		}
	}
	return nil
}

func (f fake) Rows(_ context.Context, s table.Slice, _ table.Columns, _ diffing.Rows) (diffing.Rows, error) {
	return &fakeRows{f: f, s: s}, nil
}

type fakeRows struct {
	f    fake
	s    table.Slice
	next int
}

func (r *fakeRows) Next(context.Context) (*table.SliceRow, error) {
	rows := r.f.slices[r.s.Group][r.s.Instant]
	if r.next > 0 && r.f.lost[r.s.Instant] {
		return nil, fmt.Errorf("read %s: %w", r.s.Instant, storage.ErrNotFound)
	}
	if r.next == len(rows) {
		return nil, nil
	}
	x := rows[r.next]
	r.next++
	return &table.SliceRow{Key: []byte(x.Key), Vectors: x.Vectors, Position: x.Position, Commit: []byte(x.CommitTime)}, nil
}

func (f fake) ReadKeys(_ context.Context, s table.Slice, _ table.Columns, keys map[string]bool, fn func(table.Row) error) error {
	for _, r := range f.slices[s.Group][s.Instant] {
		if keys[r.Key] {
			if err := fn(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f fake) ReadAppended(_ context.Context, before, after table.Slice, _ table.Columns, fn func(bool, table.Row) error) error {
	if err := f.readMerged(before, func(r table.Row) error { return fn(false, r) }); err != nil {
		return err
	}
	return f.readMerged(after, func(r table.Row) error { return fn(true, r) })
}

// vec is a stored FLOAT vector of two components.
func vec(x, y float32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, math.Float32bits(x))
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(y))
}

func row(key string, pos int64, v []byte) table.Row {
	return table.Row{Key: key, Position: pos, Vectors: [][]byte{v}, CommitTime: "1"}
}

var (
	a = table.Group{Partition: "p", FileID: "a"}
	b = table.Group{Partition: "p", FileID: "b"}
	v = avrox.Vector{Column: "e", Dim: 2, Element: avrox.ElementFloat}
)

func touch(groups ...table.Group) *timeline.CommitMetadata {
	m := &timeline.CommitMetadata{}
	for _, g := range groups {
		m.Stats = append(m.Stats, timeline.WriteStat{Partition: g.Partition, FileID: g.FileID, Path: "x"})
	}
	return m
}

// second asks about the second commit, which touched the groups.
func second(metric kernel.Metric, groups ...table.Group) diffing.Request {
	return diffing.Request{
		Instants: order[1:2], Metas: []*timeline.CommitMetadata{touch(groups...)},
		Incorporated: func(i timeline.Instant) bool { return i.Requested == "1" },
		Completion:   func(requested string) string { return requested + "5" },
		Targets:      []diffing.Target{{Index: "i", Vector: v, Metric: metric}},
	}
}

func compare(t *testing.T, f fake, req diffing.Request) diffing.Result {
	t.Helper()
	r, err := diffing.Compare(t.Context(), f, req)
	if err != nil {
		t.Fatal(err)
	}
	return r[0]
}

func TestClasses(t *testing.T) {
	t.Parallel()
	one, two := vec(1, 2), vec(1, 3)
	quiet := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 0x7fc00000), 0)
	for _, tc := range []struct {
		name   string
		metric kernel.Metric
		before map[table.Group][]table.Row
		after  map[table.Group][]table.Row
		want   map[delta.Class]int64
	}{
		{"insert", kernel.L2, nil, map[table.Group][]table.Row{a: {row("k", 0, one)}}, map[delta.Class]int64{delta.Insert: 1}},
		{"delete", kernel.L2, map[table.Group][]table.Row{a: {row("k", 0, one)}}, map[table.Group][]table.Row{a: {}}, map[delta.Class]int64{delta.Delete: 1}},
		{"last byte differs", kernel.L2, map[table.Group][]table.Row{a: {row("k", 0, one)}}, map[table.Group][]table.Row{a: {row("k", 0, append(append([]byte(nil), one[:7]...), one[7]^1))}}, map[delta.Class]int64{delta.VectorUpdate: 1}},
		{"−0 is not 0", kernel.L2, map[table.Group][]table.Row{a: {row("k", 0, vec(0, 1))}}, map[table.Group][]table.Row{a: {row("k", 0, vec(float32(math.Copysign(0, -1)), 1))}}, map[delta.Class]int64{delta.VectorUpdate: 1}},
		{"other base instant is a refresh", kernel.L2, map[table.Group][]table.Row{a: {row("k", 0, one)}}, map[table.Group][]table.Row{a: {row("k", 0, one)}}, map[delta.Class]int64{delta.LocatorRefresh: 1}},
		{"move to another group", kernel.L2, map[table.Group][]table.Row{a: {row("k", 0, one)}}, map[table.Group][]table.Row{a: {}, b: {row("k", 0, one)}}, map[delta.Class]int64{delta.LocatorRefresh: 1}},
		{"move with another vector", kernel.L2, map[table.Group][]table.Row{a: {row("k", 0, one)}}, map[table.Group][]table.Row{a: {}, b: {row("k", 0, two)}}, map[delta.Class]int64{delta.VectorUpdate: 1}},
		{"NULL → value", kernel.L2, map[table.Group][]table.Row{a: {row("k", 0, nil)}}, map[table.Group][]table.Row{a: {row("k", 0, one)}}, map[delta.Class]int64{delta.Insert: 1}},
		{"value → NULL", kernel.L2, map[table.Group][]table.Row{a: {row("k", 0, one)}}, map[table.Group][]table.Row{a: {row("k", 0, nil)}}, map[delta.Class]int64{delta.Delete: 1, delta.Unindexable: 1}},
		{"NULL → NULL", kernel.L2, map[table.Group][]table.Row{a: {row("k", 0, nil)}}, map[table.Group][]table.Row{a: {row("k", 0, nil)}}, map[delta.Class]int64{delta.Unindexable: 1}},
		{"NaN → value", kernel.L2, map[table.Group][]table.Row{a: {row("k", 0, quiet)}}, map[table.Group][]table.Row{a: {row("k", 0, one)}}, map[delta.Class]int64{delta.Insert: 1}},
		{"wrong size", kernel.L2, nil, map[table.Group][]table.Row{a: {row("k", 0, one[:4])}}, map[delta.Class]int64{delta.Unindexable: 1}},
		{"zero by cosine", kernel.Cosine, map[table.Group][]table.Row{a: {row("k", 0, one)}}, map[table.Group][]table.Row{a: {row("k", 0, vec(0, 0))}}, map[delta.Class]int64{delta.Delete: 1, delta.Unindexable: 1}},
		{"zero by l2", kernel.L2, map[table.Group][]table.Row{a: {row("k", 0, one)}}, map[table.Group][]table.Row{a: {row("k", 0, vec(0, 0))}}, map[delta.Class]int64{delta.VectorUpdate: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := fake{slices: map[table.Group]map[string][]table.Row{}}
			for _, g := range []table.Group{a, b} {
				f.slices[g] = map[string][]table.Row{}
				if rows, ok := tc.before[g]; ok {
					f.slices[g]["1"] = rows
				}
				if rows, ok := tc.after[g]; ok {
					f.slices[g]["2"] = rows
				}
			}
			r := compare(t, f, second(tc.metric, a, b))
			for _, c := range delta.Classes() {
				if r.Counts[c] != tc.want[c] {
					t.Errorf("%s: got %d, want %d", c, r.Counts[c], tc.want[c])
				}
			}
			if r.Mode != diffing.Full {
				t.Errorf("mode %s", r.Mode)
			}
		})
	}
}

// A log append leaves rows of the base where they were: same bytes, same locator.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	f := fake{slices: map[table.Group]map[string][]table.Row{a: {"1": {row("k", 0, vec(1, 2)), row("l", 1, vec(1, 2))}}}}
	req := second(kernel.L2, a)
	r := compare(t, f, req)
	if r.Counts[delta.Unchanged] != 2 || len(r.Changes) != 0 {
		t.Errorf("got %v, %d changes", r.Counts, len(r.Changes))
	}
	want := map[string]int64{"insert": 0, "vector_update": 0, "locator_refresh": 0, "delete": 0, "unchanged": 2, "unindexable": 0}
	if d := cmp.Diff(want, r.Counts.Map()); d != "" {
		t.Error(d)
	}
}

// Rows of new file groups wait for nothing once all rows before are read, and still meet those that wait for them.
func TestNewGroupsDoNotWait(t *testing.T) {
	t.Parallel()
	rows := func(names ...string) (out []table.Row) {
		for i, name := range names {
			out = append(out, row(name, int64(i), vec(1, 2)))
		}
		return out
	}
	r := compare(t, fake{slices: map[table.Group]map[string][]table.Row{a: {"2": rows("k", "l")}, b: {"2": rows("m")}}}, second(kernel.L2, a, b))
	if r.Counts[delta.Insert] != 3 || r.Work.Held != 0 || r.Work.Runs != 1 {
		t.Errorf("new groups: %v, %+v", r.Counts, r.Work)
	}
	r = compare(t, fake{slices: map[table.Group]map[string][]table.Row{a: {"1": rows("k"), "2": {}}, b: {"2": rows("k", "l")}}}, second(kernel.L2, a, b))
	if r.Counts[delta.Insert] != 1 || r.Counts[delta.LocatorRefresh] != 1 || r.Work.Held == 0 || r.Work.Runs != 1 {
		t.Errorf("a row that moved to a new group: %v, %+v", r.Counts, r.Work)
	}
	r = compare(t, fake{slices: map[table.Group]map[string][]table.Row{a: {"2": rows("k")}, b: {"1": rows("k"), "2": {}}}}, second(kernel.L2, a, b))
	if r.Counts[delta.LocatorRefresh] != 1 || r.Work.Runs != 1 {
		t.Errorf("a row that moved to a new group that is read first: %v, %+v", r.Counts, r.Work)
	}
}

// Of two copies of a key the one written last counts, whatever the order of reading.
func TestDuplicateKeys(t *testing.T) {
	t.Parallel()
	older, newer := row("k", 0, vec(1, 2)), row("k", 0, vec(5, 6))
	newer.CommitTime = "2"
	for _, groups := range [][2]table.Group{{a, b}, {b, a}} {
		f := fake{slices: map[table.Group]map[string][]table.Row{groups[0]: {"2": {older}}, groups[1]: {"2": {newer}}}}
		r := compare(t, f, second(kernel.L2, a, b))
		if r.Duplicates != 1 || len(r.Sample) != 1 || r.Sample[0] != "k" {
			t.Errorf("duplicates %d, sample %q", r.Duplicates, r.Sample)
		}
		if len(r.Changes) != 1 || r.Changes[0].New.Vector[0] != 5 || r.Changes[0].New.Locator.FileID != groups[1].FileID {
			t.Errorf("got %+v", r.Changes)
		}
	}
}

func TestPrecedingSliceGone(t *testing.T) {
	t.Parallel()
	rows := map[string][]table.Row{"1": {row("dead", 0, vec(1, 1)), row("k", 1, vec(1, 2))}, "2": {row("k", 0, vec(1, 2)), row("new", 1, vec(3, 4)), row("nulled", 2, nil)}}
	known := func(context.Context, string) (map[string]diffing.Posting, error) {
		return map[string]diffing.Posting{
			"dead": {Cluster: 7, Locator: delta.Locator{FileID: "a"}}, "k": {Cluster: 7}, "nulled": {Cluster: 3},
			"elsewhere": {Cluster: 1},
		}, nil
	}
	for name, f := range map[string]fake{
		"before":                 {slices: map[table.Group]map[string][]table.Row{a: rows}, gone: map[string]bool{"1": true}},
		"while it is being read": {slices: map[table.Group]map[string][]table.Row{a: rows}, lost: map[string]bool{"1": true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := second(kernel.L2, a)
			req.Known = known
			r := compare(t, f, req)
			if r.Mode != diffing.CurrentOnly || len(r.Degraded) != 1 || r.Degraded[0] != a {
				t.Errorf("mode %s, degraded %v", r.Mode, r.Degraded)
			}
			// The row with a posting is an update (its equality is not proved), the one that is NULL now left the index,
			// and nothing is said about the key that is not there.
			want := Counts{delta.VectorUpdate: 1, delta.Insert: 1, delta.Delete: 1, delta.Unindexable: 1}
			if d := cmp.Diff(want, Counts(r.Counts)); d != "" {
				t.Error(d)
			}
			for _, c := range r.Changes {
				if c.Key == "k" && (!c.Old.Routed || c.Old.Cluster != 7) {
					t.Errorf("old posting of k: %+v", c.Old)
				}
				if c.Key == "dead" {
					t.Error("a delete was invented")
				}
			}
		})
	}
}

type Counts map[delta.Class]int64

func TestAfterSliceGone(t *testing.T) {
	t.Parallel()
	f := fake{
		slices: map[table.Group]map[string][]table.Row{a: {"1": {row("k", 0, vec(1, 1))}, "2": {row("k", 0, vec(2, 2))}, "3": {row("k", 0, vec(3, 3))}}},
		gone:   map[string]bool{"2": true},
	}
	req := second(kernel.L2, a)
	if _, err := diffing.Compare(t.Context(), f, req); !errors.Is(err, storage.ErrStale) {
		t.Errorf("compare: %v", err)
	}
	// Together with the next commit, whose slice is there.
	req.Instants, req.Metas = order[1:3], []*timeline.CommitMetadata{touch(a), touch(a)}
	r := compare(t, f, req)
	if r.Mode != diffing.Merged || r.Counts[delta.VectorUpdate] != 1 || r.Changes[0].New.Vector[0] != 3 || r.Changes[0].Instant != "3" {
		t.Errorf("got %s, %v, %+v", r.Mode, r.Counts, r.Changes)
	}
}

func TestTouched(t *testing.T) {
	t.Parallel()
	m := touch(b, a)
	m.Replaced = map[string][]string{"q": {"z"}, "p": {"a"}}
	want := []table.Group{a, b, {Partition: "q", FileID: "z"}}
	if d := cmp.Diff(want, diffing.Touched([]*timeline.CommitMetadata{m})); d != "" {
		t.Error(d)
	}
}

// Two indexes on one column with different metrics are judged apart from one reading.
func TestTargets(t *testing.T) {
	t.Parallel()
	f := fake{slices: map[table.Group]map[string][]table.Row{a: {"2": {row("k", 0, vec(0, 0))}}}}
	req := second(kernel.L2, a)
	req.Targets = append(req.Targets, diffing.Target{Index: "j", Vector: v, Metric: kernel.Cosine})
	r, err := diffing.Compare(t.Context(), f, req)
	if err != nil {
		t.Fatal(err)
	}
	if r[0].Counts[delta.Insert] != 1 || r[1].Counts[delta.Insert] != 0 || r[1].Counts[delta.Unindexable] != 1 {
		t.Errorf("got %v and %v", r[0].Counts, r[1].Counts)
	}
	if r[1].Reasons[kernel.ReasonZero] != 1 {
		t.Errorf("reasons %v", r[1].Reasons)
	}
}

func TestErrorsStop(t *testing.T) {
	t.Parallel()
	f := fake{slices: map[table.Group]map[string][]table.Row{a: {"1": {row("k", 0, vec(1, 1))}, "2": {row("k", 0, vec(1, 1))}}}, lost: map[string]bool{"2": true}}
	if _, err := diffing.Compare(t.Context(), f, second(kernel.L2, a)); !errors.Is(err, storage.ErrStale) {
		t.Errorf("after-slice lost while read: %v", err)
	}
	req := second(kernel.L2, a)
	f = fake{slices: f.slices, gone: map[string]bool{"1": true}}
	req.Known = func(context.Context, string) (map[string]diffing.Posting, error) { return nil, storage.ErrCorrupt }
	if _, err := diffing.Compare(t.Context(), f, req); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("index unreadable: %v", err)
	}
}
