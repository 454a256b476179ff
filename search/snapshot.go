package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidemark/internal/hudi/hfile"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// snapshot is the table at its newest completed data write, with the record index of the same moment.
type snapshot struct {
	table     *table.Table
	files     *table.Files
	records   *mdt.MDT // nil: the table has no record index
	unread    error    // why the metadata table cannot be read; nil if it can, or if there is none
	requested string   // of the newest completed data write by completion; "" without any
}

// looks bounds how often the pin is taken again while writers commit.
const looks = 5

// begun is the first half of the first looks at a table and its metadata table; nil where there is none.
type begun struct{ data, mdt *timeline.Timeline }

// begin makes the first halves of the first looks (table.Cache.Begin), for pin. It may be asked beside the state.
func begin(ctx context.Context, st storage.Store, tables *table.Cache, records *timeline.Reader) (b begun) {
	_ = storage.Together(st, func() error {
		b.data = tables.Begin(ctx)
		return nil
	}, func() error {
		_, b.mdt = records.Begin(ctx)
		return nil
	})
	return b
}

// pin opens the table, then its metadata table, and looks at the timeline again: if it has not moved, the metadata table
// shows nothing that the table does not. Both are opened at once where their looks have begun: those that end as they began are of the
// moment between. While the timeline is as it was in last (nil: there is none), that one is returned, for one listing and one Stat.
func pin(ctx context.Context, st storage.Store, tables *table.Cache, records *timeline.Reader, blocks *hfile.Blocks, last *snapshot, b begun) (*snapshot, error) {
	for range looks {
		var t *table.Table
		var mdtProps *timeline.Properties
		var mdtLook *timeline.Timeline
		calls := []func() error{func() (err error) {
			t, err = tables.Open(ctx)
			return err
		}}
		if b.data != nil && b.mdt != nil {
			calls = append(calls, func() error {
				mdtProps, mdtLook, _ = records.Open(ctx) // what fails is tried again below
				return nil
			})
		}
		if err := storage.Together(st, calls...); err != nil {
			return nil, err
		}
		if last != nil && t.Timeline == last.table.Timeline && t.Props == last.table.Props {
			return last, nil
		}
		s := &snapshot{table: t}
		same := mdtLook != nil && t.Timeline == b.data && mdtLook == b.mdt
		b = begun{}
		err := storage.Together(st, func() error {
			var m *mdt.MDT
			var err error
			if same {
				m, err = mdt.OpenAt(ctx, st, t.Props, mdtProps, mdtLook)
			} else {
				m, err = mdt.OpenWith(ctx, st, t.Props, records)
			}
			switch {
			case err == nil && m.HasRecordIndex():
				m.Keep(blocks)
				s.records = m
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil && !errors.Is(err, storage.ErrNotFound):
				s.unread = err
			}
			return nil
		}, func() (err error) {
			s.files, err = t.Files(ctx)
			return err
		})
		if errors.Is(err, storage.ErrStale) { // an instant has gone since the look
			continue
		}
		if err != nil {
			return nil, err
		}
		again, err := timeline.Load(ctx, st, table.HoodieDir, t.Props)
		if err != nil {
			return nil, err
		}
		if !again.Equal(t.Timeline) {
			continue
		}
		if writes := t.Timeline.Writes(); len(writes) > 0 {
			s.requested = writes[len(writes)-1].Requested
		}
		return s, nil
	}
	return nil, &storage.Error{Op: "pin snapshot", Path: st.URL(), Hint: "writers commit faster than the timeline can be read: try again",
		Err: fmt.Errorf("timeline changed under %d looks: %w", looks, storage.ErrStale)}
}

// choose checks the partitions asked for against those of the snapshot. nil means all.
func (s *snapshot) choose(asked []string) (map[string]bool, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	known := map[string]bool{}
	for _, g := range s.files.Groups() {
		known[g.Partition] = true
	}
	chosen := map[string]bool{}
	for _, p := range asked {
		p = strings.Trim(p, "/")
		if !known[p] {
			names := slices.Sorted(maps.Keys(known))
			more := ""
			if len(names) > 10 {
				names, more = names[:10], ", …"
			}
			hint := "the table has " + strings.Join(names, ", ") + more
			switch {
			case len(names) == 0:
				hint = "the table has no partition yet: leave the partitions out"
			case len(names) == 1 && names[0] == "":
				hint = "the table has no partitions: leave them out"
			}
			return nil, &storage.Error{Op: "find partition", Path: cmp.Or(p, `""`), Hint: hint, Err: ErrUsage}
		}
		chosen[p] = true
	}
	return chosen, nil
}

// locate asks the record index. Errors are of type indexError.
func (s *snapshot) locate(ctx context.Context, keys []string) (map[string]table.Group, error) {
	out := make(map[string]table.Group, len(keys))
	err := s.records.EachRecord(ctx, s.table.Timeline, keys, func(key string, at mdt.Location) {
		out[key] = table.Group{Partition: at.Partition, FileID: at.FileID}
	})
	if err != nil {
		return nil, &indexError{records: true, err: err}
	}
	return out, nil
}

// slice is the file slice of a group at the snapshot. No cleaner takes a file of the newest snapshot: one that is gone is
// lost.
func (s *snapshot) slice(g table.Group) (table.Slice, bool, error) {
	slice, ok, err := s.files.Slice(g, table.Cut{})
	if errors.Is(err, table.ErrGone) {
		err = &storage.Error{Op: "read newest snapshot", Path: s.requested, Err: err,
			Hint: "the table is damaged: its newest snapshot has lost this file; restore the file from a copy, or the table to a savepoint with Hudi's tools"}
	}
	return slice, ok, err
}

// found takes in a row and when it was written, which tells copies of one key apart (design, decision 17).
type found func(row table.Row, at table.Written) error

// scan reads every row of the snapshot, or of some partitions, by partition and file group.
func (s *snapshot) scan(ctx context.Context, partitions map[string]bool, c table.Columns, fn found) error {
	for _, g := range s.files.Groups() {
		if partitions != nil && !partitions[g.Partition] {
			continue
		}
		slice, ok, err := s.slice(g)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := s.table.ReadMerged(ctx, slice, c, func(r table.Row) error { return fn(r, s.table.Written(slice, r)) }); err != nil {
			return err
		}
	}
	return nil
}

// everywhere reads the rows of one key from every file group.
func (s *snapshot) everywhere(ctx context.Context, c table.Columns, key string, fn found) error {
	for _, g := range s.files.Groups() {
		if err := s.byKey(ctx, g, c, map[string]bool{key: true}, fn); err != nil {
			return err
		}
	}
	return nil
}

// byKey reads the rows of some keys from one file group. A group that the snapshot does not show has none.
func (s *snapshot) byKey(ctx context.Context, g table.Group, c table.Columns, keys map[string]bool, fn found) error {
	slice, ok, err := s.slice(g)
	if err != nil || !ok {
		return err
	}
	return s.table.ReadKeys(ctx, slice, c, keys, func(r table.Row) error { return fn(r, s.table.Written(slice, r)) })
}
