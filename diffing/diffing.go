package diffing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tidemark/delta"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
	"tidemark/timeline"
)

// Mode says how much of a commit could be compared.
type Mode string

// The modes. Full: every touched file group was read before and after. CurrentOnly: the preceding slice of at
// least one group is gone, so its deletes are unknown. Merged: the instant's own slices are gone and it was
// compared together with later ones.
const (
	Full        Mode = "full"
	CurrentOnly Mode = "current_only"
	Merged      Mode = "merged"
)

// Target is one index for which rows are compared.
type Target struct {
	Index  string
	Vector avrox.Vector
	// Metric decides which rows are indexable (design decision 16).
	Metric kernel.Metric
}

// Posting is what an index knows about a record key: where its posting is, and where it says that the row lies.
type Posting struct {
	Cluster int
	Locator delta.Locator
}

// Source gives slices and their merged rows; table.Table with its files is one.
type Source interface {
	// Slice returns the slice of a group as of the instants for which in is true. ok is false if the group has
	// no rows then. storage.ErrNotFound: files that belong to the slice are gone.
	Slice(g table.Group, in func(timeline.Instant) bool) (s table.Slice, ok bool, err error)
	// ReadMerged calls fn for each row of a slice.
	ReadMerged(ctx context.Context, s table.Slice, c table.Columns, fn func(table.Row) error) error
}

// Request describes one comparison: a unit of instants that are compared together (nearly always one).
type Request struct {
	// Instants are the unit's data writes in completion order, Metas their metadata.
	Instants []timeline.Instant
	Metas    []*timeline.CommitMetadata
	// Incorporated says which instants the indexes already hold. The state before is the table as of those, the
	// state after as of those and the unit.
	Incorporated func(timeline.Instant) bool
	// Completion returns an instant's completion time by its requested time, "" if it is not known. Of two rows
	// with one key the one written last counts.
	Completion func(requested string) string
	Targets    []Target
	// Known returns the postings of an index by record key. It is called only where the preceding slice is gone, or
	// was for an earlier unit.
	Known func(ctx context.Context, index string) (map[string]Posting, error)
	// Hidden says whether an index may hold postings of rows whose deletion was not seen, because a preceding slice
	// was gone. A key that is inserted again has such a posting replaced. nil: none does.
	Hidden func(index string) bool
}

// Counts is the number of rows per class. Classes that did not occur are 0.
type Counts map[delta.Class]int64

// Map returns the counts under the names that JSON output uses, all classes present.
func (c Counts) Map() map[string]int64 {
	m := make(map[string]int64, len(delta.Classes()))
	for _, k := range delta.Classes() {
		m[k.String()] = c[k]
	}
	return m
}

// Result is what the unit did, for one target.
type Result struct {
	Index  string
	Counts Counts
	// Changes are the rows that were inserted, updated, moved or deleted, ascending by key. Vectors and raw bytes
	// are owned by the result.
	Changes []delta.Change
	Mode    Mode
	// Degraded are the file groups whose preceding slice is gone: rows deleted from them are not known.
	Degraded []table.Group
	// Duplicates counts further copies of a record key among the rows read, Sample names some of the keys.
	Duplicates int64
	Sample     []string
	// Reasons counts unindexable rows by why they are.
	Reasons map[string]int64
}

// sampleKeys bounds how many record keys a result names.
const sampleKeys = 10

// row is a merged row with what tells copies apart.
type row struct {
	raw     [][]byte
	loc     delta.Locator
	written string // completion time of the row's commit
	commit  string // requested time of the row's commit
}

// side is the table's rows in the touched groups, before or after.
type side struct {
	rows       map[string]row
	duplicates map[string]int64
}

// Touched returns the file groups that commits wrote or replaced, sorted.
func Touched(metas []*timeline.CommitMetadata) []table.Group {
	set := map[table.Group]bool{}
	for _, m := range metas {
		for _, s := range m.Stats {
			set[table.Group{Partition: s.Partition, FileID: s.FileID}] = true
		}
		for partition, ids := range m.Replaced {
			for _, id := range ids {
				set[table.Group{Partition: partition, FileID: id}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(set), func(a, b table.Group) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.FileID, b.FileID))
	})
}

// Compare classifies the rows of a unit for each target, in the order of the targets. It reads the slice of
// every touched group before and after once. A group whose preceding slice is gone is compared with what the
// index knows and named in Degraded. If an after-slice is gone the error is storage.ErrStale: the unit must be
// taken together with later instants (design decision 12); Readable tells in advance.
func Compare(ctx context.Context, src Source, req Request) ([]Result, error) {
	columns, at := columnsOf(req.Targets)
	after := req.after()
	before, now := newSide(), newSide()
	blind := map[string]bool{} // keys of the after-slices of degraded groups
	var degraded []table.Group
	for _, g := range Touched(req.Metas) {
		gone := false
		s, ok, err := src.Slice(g, req.Incorporated)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			gone = true
			degraded = append(degraded, g)
		case err != nil:
			return nil, fmt.Errorf("find slice of %s before %s: %w", g, req.first(), err)
		case ok:
			if err := before.read(ctx, src, s, columns, req.Completion, nil); errors.Is(err, storage.ErrNotFound) {
				gone = true // cleaned while we read
				degraded = append(degraded, g)
			} else if err != nil {
				return nil, fmt.Errorf("read slice of %s before %s: %w", g, req.first(), err)
			}
		}
		s, ok, err = src.Slice(g, after)
		if errors.Is(err, storage.ErrNotFound) {
			return nil, fmt.Errorf("find slice of %s after %s: %w: %w", g, req.last(), err, storage.ErrStale)
		}
		if err != nil {
			return nil, fmt.Errorf("find slice of %s after %s: %w", g, req.last(), err)
		}
		if !ok {
			continue
		}
		note := func(string) {}
		if gone {
			note = func(key string) { blind[key] = true }
		}
		err = now.read(ctx, src, s, columns, req.Completion, note)
		if errors.Is(err, storage.ErrNotFound) {
			return nil, fmt.Errorf("read slice of %s after %s: %w: %w", g, req.last(), err, storage.ErrStale)
		}
		if err != nil {
			return nil, fmt.Errorf("read slice of %s after %s: %w", g, req.last(), err)
		}
	}

	results := make([]Result, len(req.Targets))
	for i, target := range req.Targets {
		known := map[string]Posting{}
		if (len(degraded) > 0 || req.Hidden != nil && req.Hidden(target.Index)) && req.Known != nil {
			var err error
			if known, err = req.Known(ctx, target.Index); err != nil {
				return nil, fmt.Errorf("read postings of index %s: %w", target.Index, err)
			}
		}
		r, err := classify(target, at[i], before, now, evidence{known, blind, degraded}, req.last())
		if err != nil {
			return nil, err
		}
		r.Degraded, r.Mode = degraded, Full
		if len(degraded) > 0 {
			r.Mode = CurrentOnly
		}
		if len(req.Instants) > 1 {
			r.Mode = Merged
		}
		results[i] = r
	}
	return results, nil
}

// Readable returns what is missing of a unit's after-slices, kind storage.ErrNotFound: nil, and the unit can be
// compared on its own. err is any other failure.
func Readable(src Source, req Request) (missing, err error) {
	for _, g := range Touched(req.Metas) {
		_, _, err := src.Slice(g, req.after())
		if errors.Is(err, storage.ErrNotFound) {
			return err, nil
		}
		if err != nil {
			return nil, fmt.Errorf("find slice of %s after %s: %w", g, req.last(), err)
		}
	}
	return nil, nil
}

// after says which instants the state after the unit is made of.
func (r Request) after() func(timeline.Instant) bool {
	unit := map[string]bool{}
	for _, i := range r.Instants {
		unit[i.Requested] = true
	}
	return func(i timeline.Instant) bool { return r.Incorporated(i) || unit[i.Requested] && i.IsDataWrite() }
}

func (r Request) first() string { return r.Instants[0].Requested }
func (r Request) last() string  { return r.Instants[len(r.Instants)-1].Requested }

// columnsOf returns the distinct vector columns of the targets and each target's place among them.
func columnsOf(targets []Target) (table.Columns, []int) {
	var c table.Columns
	at := make([]int, len(targets))
	for i, t := range targets {
		at[i] = slices.Index(c.Vectors, t.Vector.Column)
		if at[i] < 0 {
			at[i] = len(c.Vectors)
			c.Vectors = append(c.Vectors, t.Vector.Column)
		}
	}
	return c, at
}

func newSide() *side { return &side{rows: map[string]row{}, duplicates: map[string]int64{}} }

// read adds the rows of a slice. Of two rows with one key the one written last stays (design decision 17).
// Rows read before an error are taken back, so that a slice counts whole or not at all.
func (s *side) read(ctx context.Context, src Source, sl table.Slice, c table.Columns, completion func(string) string, note func(string)) error {
	var rows []row
	var keys []string
	err := src.ReadMerged(ctx, sl, c, func(r table.Row) error {
		keys = append(keys, r.Key)
		rows = append(rows, row{
			raw:     r.Vectors,
			loc:     delta.Locator{Partition: sl.Partition, FileID: sl.FileID, BaseInstant: sl.Instant, Position: r.Position},
			written: completion(r.CommitTime), commit: r.CommitTime,
		})
		return nil
	})
	if err != nil {
		return err
	}
	for i, key := range keys {
		if note != nil {
			note(key)
		}
		old, seen := s.rows[key]
		if seen {
			s.duplicates[key]++
			if !rows[i].after(old) {
				continue
			}
		}
		s.rows[key] = rows[i]
	}
	return nil
}

// after reports whether r was written after o. Rows of one commit are told apart by their place, so that the
// choice does not depend on the order of reading.
func (r row) after(o row) bool {
	return cmp.Or(cmp.Compare(r.written, o.written), cmp.Compare(r.commit, o.commit),
		cmp.Compare(r.loc.Partition, o.loc.Partition), cmp.Compare(r.loc.FileID, o.loc.FileID),
		cmp.Compare(r.loc.Position, o.loc.Position)) > 0
}

// version returns an indexable row's state, or why the row is not indexable.
func (r row) version(t Target, column int) (*delta.Version, string) {
	v := make([]float32, t.Vector.Dim)
	if ok, reason := kernel.Narrow(v, r.raw[column], t.Vector.Element.Kernel(), t.Metric); !ok {
		return nil, reason
	}
	return &delta.Version{Raw: r.raw[column], Vector: v, Locator: r.loc}, ""
}

// evidence is what the index knows where slices are gone.
type evidence struct {
	known    map[string]Posting
	blind    map[string]bool // keys of the after-slices of degraded groups
	degraded []table.Group   // groups of this unit whose preceding slice is gone
}

// version is the row that a posting stands for, its bytes not known; nil without one.
func (e evidence) version(key string) *delta.Version {
	p, ok := e.known[key]
	if !ok {
		return nil
	}
	return &delta.Version{Locator: p.Locator, Cluster: p.Cluster, Routed: true}
}

// gone says whether the row before may have been in a slice that is gone.
func (e evidence) gone(key string) bool {
	p, ok := e.known[key]
	return ok && (e.blind[key] || slices.Contains(e.degraded, table.Group{Partition: p.Locator.Partition, FileID: p.Locator.FileID}))
}

// classify applies the table of the row classes (design section 4) to every key of both sides.
func classify(t Target, column int, before, now *side, ev evidence, instant string) (Result, error) {
	res := Result{Index: t.Index, Counts: Counts{}, Reasons: map[string]int64{}}
	for _, key := range slices.Sorted(maps.Keys(now.rows)) {
		n := now.rows[key]
		cur, reason := n.version(t, column)
		if cur == nil {
			res.Counts[delta.Unindexable]++
			res.Reasons[reason]++
		}
		var old *delta.Version
		if b, ok := before.rows[key]; ok {
			old, _ = b.version(t, column)
		} else if ev.gone(key) {
			old = ev.version(key) // the index has a posting, whose vector bytes are not known
		}
		if class := classOf(old, cur); class != 0 {
			if class == delta.Insert {
				old = ev.version(key) // a posting that outlived its row, in whatever cluster: it is replaced
			}
			res.add(delta.Change{Class: class, Key: key, Old: old, New: cur, Instant: instant})
		}
		res.duplicate(key, now.duplicates[key])
	}
	for _, key := range slices.Sorted(maps.Keys(before.rows)) {
		if _, ok := now.rows[key]; ok {
			continue
		}
		if old, _ := before.rows[key].version(t, column); old != nil {
			res.add(delta.Change{Class: delta.Delete, Key: key, Old: old, Instant: instant})
		}
	}
	slices.SortStableFunc(res.Changes, func(a, b delta.Change) int { return cmp.Compare(a.Key, b.Key) })
	return res, nil
}

// classOf compares two states; nil means absent or unindexable. 0: nothing to say.
func classOf(old, cur *delta.Version) delta.Class {
	switch {
	case old == nil && cur == nil:
		return 0
	case old == nil:
		return delta.Insert
	case cur == nil:
		return delta.Delete
	case old.Raw == nil || !bytes.Equal(old.Raw, cur.Raw):
		return delta.VectorUpdate
	case old.Locator != cur.Locator:
		return delta.LocatorRefresh
	}
	return delta.Unchanged
}

func (r *Result) add(c delta.Change) {
	r.Counts[c.Class]++
	if c.Class != delta.Unchanged {
		r.Changes = append(r.Changes, c)
	}
}

func (r *Result) duplicate(key string, n int64) {
	if n == 0 {
		return
	}
	r.Duplicates += n
	if len(r.Sample) < sampleKeys {
		r.Sample = append(r.Sample, key)
	}
}
