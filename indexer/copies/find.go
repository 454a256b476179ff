package copies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"

	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// ask looks the waiting keys up in the record index, as of before the batch.
func (w *Watch) ask(ctx context.Context) error {
	for len(w.asked) > 0 && w.scan == "" {
		n := min(len(w.asked), askBatch)
		keys := make([]string, n)
		for i, a := range w.asked[:n] {
			keys[i] = a.key
		}
		where, err := w.lookUp(ctx, w.before, keys)
		if err != nil {
			return err
		}
		for _, a := range w.asked[:n] {
			if at, ok := where[a.key]; ok {
				w.note(a.unit, table.Group{Partition: at.Partition, FileID: at.FileID}, w.suspects.Hash([]byte(a.key)))
			}
		}
		w.asked = w.asked[n:]
	}
	w.asked = nil
	return nil
}

// lookUp asks the record index as of the instants for which in is true. Where it cannot answer, w.scan says why.
func (w *Watch) lookUp(ctx context.Context, in func(timeline.Instant) bool, keys []string) (map[string]mdt.Location, error) {
	if !w.opened {
		m, err := mdt.Open(ctx, w.table.Store)
		switch {
		case err == nil && m.HasRecordIndex():
			w.records = m
		case err == nil:
			w.scan = "the table has no record index that can be used"
		case ctx.Err() != nil:
			return nil, err
		default:
			w.scan = "the metadata table cannot be read: " + err.Error()
		}
		w.opened = true
	}
	if w.scan != "" || w.records == nil {
		return nil, nil
	}
	out := map[string]bool{}
	for _, i := range w.writes {
		if !in(i) {
			out[i.Requested] = true
		}
	}
	w.stats.Looked += int64(len(keys))
	where, err := w.records.LookupRecordsWithout(ctx, w.table.Timeline, out, keys)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, storage.ErrStale):
		w.scan = "the record index was compacted since: it does not tell how the table was before"
	case err != nil:
		w.scan = "the record index cannot be read: " + err.Error()
	}
	return where, nil
}

// earlier says whether a unit of the batch before this one touched a group.
func (w *Watch) earlier(unit uint32, g table.Group) bool {
	return slices.ContainsFunc(w.units[:unit], func(u unitSeen) bool { return u.touched[g] })
}

// note remembers that a group held a copy, before the batch or after an earlier unit, of a key that a unit put elsewhere.
func (w *Watch) note(unit uint32, g table.Group, hash uint64) {
	if w.units[unit].touched[g] && !w.earlier(unit, g) {
		return
	}
	p := copyPlace{unit, g}
	if w.found[p] == nil {
		w.found[p] = map[uint64]bool{}
	}
	w.found[p][hash] = true
}

// Find looks for the copies of the batch's fresh keys, and reports whether it found any that the comparison did not know of:
// then all its units are forgotten, and the batch must be compared anew. Kinds as those of reading the table.
func (w *Watch) Find(ctx context.Context) (bool, error) {
	if err := w.ask(ctx); err != nil {
		return false, err
	}
	slices.SortFunc(w.fresh, func(a, b freshKey) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.unit, b.unit), cmp.Compare(a.group, b.group))
	})
	if len(w.fresh) > 0 && (w.scan != "" || w.more) {
		w.stats.Reason = w.scan
		if w.more {
			w.stats.Reason = "more record keys live more than once than the state keeps"
		}
		if err := w.scanTable(ctx); err != nil {
			return false, err
		}
	}
	w.twice()
	grew := false
	for _, p := range slices.SortedFunc(maps.Keys(w.found), func(a, b copyPlace) int {
		return cmp.Or(cmp.Compare(a.unit, b.unit), cmp.Compare(a.group.Partition, b.group.Partition), cmp.Compare(a.group.FileID, b.group.FileID))
	}) {
		there, err := w.still(ctx, p)
		if err != nil {
			return false, err
		}
		for g, hashes := range there {
			for hash := range hashes {
				learned, late := w.learned[copyOf{hash, g}]
				grew = w.suspects.Add(hash, g) || late && learned >= int(p.unit) || grew
			}
		}
	}
	if grew {
		w.stats.Again++
		w.restart()
	}
	return grew, nil
}

// of returns the units that put a key somewhere.
func (w *Watch) of(hash uint64) []freshKey {
	from := sort.Search(len(w.fresh), func(i int) bool { return w.fresh[i].hash >= hash })
	to := from
	for to < len(w.fresh) && w.fresh[to].hash == hash {
		to++
	}
	return w.fresh[from:to]
}

// twice notes keys that two units put into different groups.
func (w *Watch) twice() {
	for i := 0; i < len(w.fresh); {
		same := w.of(w.fresh[i].hash)
		for j, later := range same {
			for _, earlier := range same[:j] {
				if earlier.unit < later.unit && earlier.group != later.group {
					w.note(later.unit, w.groups[earlier.group], later.hash)
				}
			}
		}
		i += len(same)
	}
}

// still returns which of the keys found in a group live outside the unit's groups when it has ended, and where. A group which no earlier unit
// of the batch touched is as it was before; a key of any other may have been moved, to any group that those touched.
func (w *Watch) still(ctx context.Context, p copyPlace) (map[table.Group]map[uint64]bool, error) {
	places, u := map[table.Group]bool{p.group: true}, w.units[p.unit]
	changed := w.earlier(p.unit, p.group)
	if changed {
		for _, earlier := range w.units[:p.unit] {
			maps.Copy(places, earlier.touched)
		}
	}
	there := map[table.Group]map[uint64]bool{}
	for g := range places {
		if u.touched[g] {
			continue
		}
		s, ok, err := w.files.Slice(g, table.Cut{In: u.after})
		if err == nil && ok && changed {
			there[g], err = w.holding(ctx, s, w.found[p])
		} else if err == nil && ok || errors.Is(err, storage.ErrNotFound) { // what is gone the comparison finds out
			there[g], err = w.found[p], nil
		}
		if err != nil {
			return nil, err
		}
	}
	return there, nil
}

// holding returns which keys a slice holds; all of them if it is gone.
func (w *Watch) holding(ctx context.Context, s table.Slice, hashes map[uint64]bool) (map[uint64]bool, error) {
	there := map[uint64]bool{}
	err := w.table.ScanKeys(ctx, s, func(key string) bool { return hashes[w.suspects.Hash([]byte(key))] }, func(r table.Row) error {
		there[w.suspects.Hash([]byte(r.Key))] = true
		return nil
	})
	if errors.Is(err, storage.ErrNotFound) && ctx.Err() == nil {
		return hashes, nil
	}
	return there, err
}

// scanTable looks for the fresh keys in the key columns of all groups as they were before the batch. Of a group that can no longer be read the
// indexes' postings are asked.
func (w *Watch) scanTable(ctx context.Context) error {
	gone, units := map[table.Group]bool{}, map[uint32]bool{}
	for _, k := range w.fresh {
		units[k.unit] = true
	}
	asks := func(g table.Group) bool {
		for unit := range units {
			if !w.units[unit].touched[g] || w.earlier(unit, g) {
				return true
			}
		}
		return false
	}
	for _, g := range w.files.Groups() {
		if !asks(g) {
			continue // all units that put keys into the table read it themselves
		}
		s, ok, err := w.files.Slice(g, table.Cut{In: w.before})
		if err == nil && !ok {
			continue
		}
		if err == nil {
			w.stats.Scanned++
			err = w.table.ScanKeys(ctx, s, w.isFresh, func(r table.Row) error {
				w.noteAll(r.Key, g)
				return ctx.Err()
			})
		}
		if errors.Is(err, storage.ErrNotFound) && ctx.Err() == nil {
			gone[g] = true
			continue
		}
		if err != nil {
			return fmt.Errorf("look for copies of record keys in %s: %w", g, err)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	for _, x := range w.indexes {
		err := x.Generation.Postings(ctx, x.View, func(p generation.Posting) error {
			if g := (table.Group{Partition: p.Locator.Partition, FileID: p.Locator.FileID}); gone[g] {
				w.noteAll(p.Key, g)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("look for copies of record keys in index %s: %w", x.State.Name, err)
		}
	}
	return nil
}

func (w *Watch) isFresh(key string) bool { return len(w.of(w.suspects.Hash([]byte(key)))) > 0 }

// noteAll notes a group as a place of a key for every unit that put it elsewhere.
func (w *Watch) noteAll(key string, g table.Group) {
	hash := w.suspects.Hash([]byte(key))
	for _, k := range w.of(hash) {
		w.note(k.unit, g, hash)
	}
}
