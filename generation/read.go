package generation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"tidemark/delta"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
	"tidemark/timeline"
)

// sampleKeys is how many record keys a message or a result names as examples.
const sampleKeys = 5

// Unindexable counts rows of the snapshot that cannot have a posting (design, decision 16).
type Unindexable struct {
	Count   int64
	Reasons map[string]int64    // by kernel's reason
	Samples map[string][]string // up to five record keys a reason, in reading order
}

func (u *Unindexable) add(reason, key string) {
	u.Count++
	u.Reasons[reason]++
	if s := u.Samples[reason]; len(s) < sampleKeys {
		u.Samples[reason] = append(s, key)
	}
}

// Duplicates counts record keys that the snapshot holds more than once (design, decision 17).
type Duplicates struct {
	Keys    int64
	Samples []string
}

// reader collects the rows of a snapshot.
type reader struct {
	t      *table.Table
	column string
	vector avrox.Vector
	metric kernel.Metric

	completion  func(requested string) string // of the snapshot's commits
	corpus      corpus
	unindexable Unindexable
	duplicates  Duplicates
	seen        map[string]seenRow
	slices      []table.Group
	copies      map[string]*copies
	superseded  map[int]bool // rows of the corpus that lost against a copy written later
}

// seenRow is the copy of a record key that counts so far: the one written last, as table.Written.Compare has it.
type seenRow struct {
	row       int    // in the corpus; -1 if it is unindexable
	reason    string // why it is unindexable
	completed string
	requested string
	slice     int32 // in reader.slices
	position  int64
}

// copies is where a record key lives that the snapshot holds more than once.
type copies struct {
	rows int64
	in   []int32
}

func newReader(t *table.Table, cut table.Cut, v avrox.Vector, metric kernel.Metric, rows int64) *reader {
	return &reader{
		t: t, column: v.Column, vector: v, metric: metric,
		corpus:      corpus{dim: v.Dim, vectors: make([]float32, 0, rows*int64(v.Dim))},
		unindexable: Unindexable{Reasons: map[string]int64{}, Samples: map[string][]string{}},
		seen:        make(map[string]seenRow, rows),
		superseded:  map[int]bool{},
		copies:      map[string]*copies{},
		completion:  table.CompletedIn(t.Completion, func(i timeline.Instant) bool { return cut.Upto == "" || i.Completed <= cut.Upto }),
	}
}

// slice reads one merged slice. Rows come into the corpus by position, those of its logs after them by key, whatever
// order the reader has, so that the corpus is the same in every run.
func (r *reader) slice(ctx context.Context, s table.Slice) error {
	var rows []table.Row
	err := r.t.ReadMerged(ctx, s, table.Columns{Vectors: []string{r.column}}, func(row table.Row) error {
		rows = append(rows, row)
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("read slice %s of %s: %w", s.Instant, s.Group, err)
	}
	slices.SortStableFunc(rows, func(a, b table.Row) int {
		inLog := func(r table.Row) int {
			if r.Position == delta.LogPosition {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(inLog(a), inLog(b)), cmp.Compare(a.Position, b.Position), strings.Compare(a.Key, b.Key))
	})
	r.slices = append(r.slices, s.Group)
	for _, row := range rows {
		r.row(s, row)
	}
	return nil
}

func (r *reader) row(s table.Slice, in table.Row) {
	c := &r.corpus
	w := table.WrittenAt(r.completion, s.Group, s.Instant, in.CommitTime, in.Position)
	now := seenRow{row: -1, completed: w.Completed, requested: w.Requested, slice: int32(len(r.slices) - 1), position: in.Position}
	if before, twice := r.seen[in.Key]; twice {
		r.duplicate(in.Key, before, now)
		if r.compare(now, before) <= 0 {
			return
		}
		if before.row >= 0 {
			r.superseded[before.row] = true
		} else {
			r.unindexable.Count--
			r.unindexable.Reasons[before.reason]--
		}
	}
	n := len(c.vectors)
	c.vectors = slices.Grow(c.vectors, c.dim)[:n+c.dim]
	if ok, reason := kernel.Narrow(c.vectors[n:], in.Vectors[0], r.vector.Element.Kernel(), r.metric); !ok {
		c.vectors = c.vectors[:n]
		r.unindexable.add(reason, in.Key)
		now.reason = reason
	} else {
		now.row = len(c.rows)
		c.rows = append(c.rows, row{key: in.Key, at: delta.Locator{
			Partition: in.Partition, FileID: s.FileID, BaseInstant: s.Instant, Position: in.Position,
		}})
	}
	r.seen[in.Key] = now
}

// duplicate notes a further copy of a key.
func (r *reader) duplicate(key string, before, now seenRow) {
	x := r.copies[key]
	if x == nil {
		x = &copies{rows: 1, in: []int32{before.slice}}
		r.copies[key] = x
		r.duplicates.Keys++
		if len(r.duplicates.Samples) < sampleKeys {
			r.duplicates.Samples = append(r.duplicates.Samples, key)
		}
	}
	x.rows++
	if !slices.Contains(x.in, now.slice) {
		x.in = append(x.in, now.slice)
	}
}

// compare orders two copies of a key. Slices come in the order of their groups.
func (r *reader) compare(a, b seenRow) int {
	return cmp.Or(cmp.Compare(a.completed, b.completed), cmp.Compare(a.requested, b.requested), cmp.Compare(a.slice, b.slice), cmp.Compare(a.position, b.position))
}

// known returns the keys with copies as the state keeps them.
func (r *reader) known() *mdt.Copies {
	var keys []mdt.CopiedKey
	for key, x := range r.copies {
		k := mdt.CopiedKey{Key: key, Rows: x.rows}
		in := slices.DeleteFunc(slices.Clone(x.in), func(slice int32) bool { return slice == r.seen[key].slice })
		for _, slice := range append([]int32{r.seen[key].slice}, in...) {
			k.Groups = append(k.Groups, mdt.CopiedIn{Partition: r.slices[slice].Partition, FileID: r.slices[slice].FileID})
		}
		keys = append(keys, k)
	}
	return mdt.NewCopies(keys, false)
}

// finish checks the keys and returns the corpus without superseded rows.
func (r *reader) finish(onDuplicate string) (*corpus, error) {
	if r.duplicates.Keys > 0 && onDuplicate == DuplicateRefuse {
		return nil, &storage.Error{Op: "create index",
			Hint: fmt.Sprintf("remove the copies, or add --option %s=%s", OptOnDuplicateKey, DuplicateLastWins),
			Err: fmt.Errorf("%d record keys occur more than once, for example %s: %w",
				r.duplicates.Keys, quoted(r.duplicates.Samples), storage.ErrRefused)}
	}
	c := &r.corpus
	if len(r.superseded) > 0 {
		kept := 0
		for i := range c.rows {
			if r.superseded[i] {
				continue
			}
			c.rows[kept] = c.rows[i]
			copy(c.vector(kept), c.vector(i))
			kept++
		}
		c.rows, c.vectors = c.rows[:kept], c.vectors[:kept*c.dim]
	}
	r.seen = nil
	if len(c.rows) == 0 {
		return nil, &storage.Error{Op: "create index", Hint: "write rows with vectors first", Err: fmt.Errorf(
			"no row of column %s can be indexed (%d rows cannot): %w", r.column, r.unindexable.Count, storage.ErrRefused)}
	}
	return c, nil
}

func quoted(keys []string) string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = fmt.Sprintf("%.60q", k)
	}
	return strings.Join(out, ", ")
}
