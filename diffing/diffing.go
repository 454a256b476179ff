package diffing

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"tidemark/delta"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/table"
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

// Source gives slices and their rows; a table.Table with its files is one.
type Source interface {
	// Slice returns the slice of a group as of the instants for which in is true. ok is false if the group has
	// no rows then. storage.ErrNotFound: files that belong to the slice are gone.
	Slice(g table.Group, in func(timeline.Instant) bool) (s table.Slice, ok bool, err error)
	// Rows walks the merged rows of a slice, as table.Table does. twin is nil or rows of another slice that are walked
	// in step with these.
	Rows(ctx context.Context, s table.Slice, c table.Columns, twin Rows) (Rows, error)
	// ReadAppended hands on the rows of two slices that can differ, as table.Table does. It is asked only where
	// table.Appended holds.
	ReadAppended(ctx context.Context, before, after table.Slice, c table.Columns, fn func(after bool, r table.Row) error) error
	// ReadKeys hands on the merged rows of some keys, as table.Table does.
	ReadKeys(ctx context.Context, s table.Slice, c table.Columns, keys map[string]bool, fn func(table.Row) error) error
}

// Rows walks rows. Next returns nil behind the last one; the row and what it points to are reused.
type Rows interface {
	Next(ctx context.Context) (*table.SliceRow, error)
}

// Change is what the unit did to one row, as Changes takes it: no more than a view of it.
type Change struct {
	Class delta.Class // Insert, VectorUpdate, LocatorRefresh or Delete
	Key   []byte
	// Old and New are as those of a delta.Change, but without the narrowed vectors.
	Old, New *delta.Version
}

// Changes takes in changes as they are found. A rewrite moves nearly every row of its file group (design decision 21): as many as
// fit in no memory.
type Changes interface {
	// Add takes one row of a target, in no special order. What it points to is valid during the call only.
	Add(target int, c Change) error
	// Reset says that the comparison begins anew: what was added since it began counts no more.
	Reset()
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
	// Suspects are keys that may live outside the touched groups too. nil: there are none.
	Suspects *Suspects
	// Fresh, if not nil, takes in the keys for which that must be found out.
	Fresh Fresh
	// Changes, if not nil, takes the changes as they are found, instead of Result.Changes: memory then stays bounded by
	// Window and 8 bytes a row, whatever the size of a file group.
	Changes Changes
	// Window bounds the bytes of rows that wait for their counterpart; beyond it they wait in a temporary folder.
	// Defaults to 64 MiB.
	Window int64
	// TempDir is where that folder is made. Defaults to the system's folder for temporary files.
	TempDir string
	// Hidden says whether an index may hold postings of rows whose deletion was not seen, because a preceding slice
	// was gone. A key that is inserted again has such a posting replaced. nil: none does.
	Hidden func(index string) bool
	// Began, if not nil, is told of each touched group before its rows are read; again where the comparison begins anew.
	Began func(g table.Group)
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
	// are owned by the result. Empty if Request.Changes took them.
	Changes []delta.Change
	Mode    Mode
	// Degraded are the file groups whose preceding slice is gone: rows deleted from them are not known.
	Degraded []table.Group
	// Duplicates counts further copies of a record key among the rows read, Sample names some of the keys.
	Duplicates int64
	Sample     []string
	// Copies are where the keys live after the unit that were found more than once or are suspects, as far as the unit touched
	// them: ascending by key, the same for every target.
	Copies []Copies
	// Reasons counts unindexable rows by why they are.
	Reasons map[string]int64
	// Work is what the comparison took, the same for every target of it.
	Work Work
}

// Work is what a comparison took.
type Work struct {
	// Examined counts the keys of which both versions were looked at.
	Examined int64
	// Held is the most bytes of rows that waited for their counterpart in memory, Spilled how many rows went to disk.
	Held, Spilled int64
	// Apart counts the keys that were compared by the rule for copies, Outside the untouched file groups that were read for them.
	Apart, Outside int64
	// Runs counts the attempts: a slice that vanished, or a key found twice, begins the comparison anew.
	Runs int
}

// sampleKeys bounds how many record keys a result names.
const sampleKeys = 10

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

// After says which instants the state after the unit is made of.
func (r Request) After() func(timeline.Instant) bool {
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

func (r *Result) unindexable(reason string) {
	r.Counts[delta.Unindexable]++
	r.Reasons[reason]++
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
