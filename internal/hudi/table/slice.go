package table

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"tidemark/internal/storage"
	"tidemark/timeline"
)

// ErrGone says that a file which belongs to a slice is no longer there: cleaned, or lost. Its kind is storage.ErrNotFound.
var ErrGone = fmt.Errorf("file is gone: %w", storage.ErrNotFound)

// Cut says which completed instants are in a snapshot. All conditions must hold; the zero Cut is the newest snapshot.
type Cut struct {
	// Upto is a completion time: instants completed later are out. Empty: no bound.
	Upto string
	// Before makes Upto exclusive.
	Before bool
	// In chooses among the completed instants of the active timeline; nil takes all. It is not asked about archived instants:
	// they are in, unless Upto excludes them.
	In func(timeline.Instant) bool
}

// Only returns a Cut.In that takes the instants of a set of requested times.
func Only(requested map[string]bool) func(timeline.Instant) bool {
	return func(i timeline.Instant) bool { return requested[i.Requested] }
}

// Except returns a Cut.In that takes all instants but those of a set of requested times.
func Except(requested map[string]bool) func(timeline.Instant) bool {
	return func(i timeline.Instant) bool { return !requested[i.Requested] }
}

// Slice is what one file group shows in a snapshot: a base file, or none, and logs in merge order.
type Slice struct {
	Group
	Base *File // nil: logs only
	Logs []File
	// Instant is the base file's instant, else the lowest requested time among the logs: the base instant of a locator
	// (design, decision 22).
	Instant string
	// Ignored counts files of the group that a completed instant's time claims but its metadata does not: left by failed or
	// repeated tasks.
	Ignored int

	// keep says whether blocks of an instant belong to the slice.
	keep func(instant string) bool
}

// Slice returns the slice of a group at the cut. ok is false when the group shows nothing there: not written yet, unknown,
// or replaced. A file that belongs to the slice and is no longer there is ErrGone, as is a snapshot for which that
// cannot be told because it lies before the active timeline (see Table.Since). A snapshot that holds a commit whose
// metadata is damaged is storage.ErrCorrupt: what that commit wrote or replaced is not known. A file shorter than its commit says is
// storage.ErrCorrupt. Pending compactions, uncommitted and rolled-back files are ignored.
func (f *Files) Slice(g Group, cut Cut) (s Slice, ok bool, err error) {
	if f.only != nil && !f.only[g.Partition] {
		return Slice{}, false, &storage.Error{Op: "find slice", Path: g.String(), Err: fmt.Errorf("its partition was not listed: %w", storage.ErrUnsupported)}
	}
	if err := f.reaches(cut); err != nil {
		return Slice{}, false, err
	}
	for _, requested := range slices.Sorted(maps.Keys(f.damaged)) {
		if f.visible(requested, cut) {
			return Slice{}, false, f.damaged[requested]
		}
	}
	x := f.groups[g]
	if x == nil || x.retired() || slices.ContainsFunc(x.replaced, func(r string) bool { return f.visible(r, cut) }) {
		return Slice{}, false, nil
	}
	s.Group = g
	var base *File
	for _, b := range x.bases {
		if !f.visible(b.Instant, cut) {
			continue
		}
		if f.unclaimed(b) {
			s.Ignored++
			continue
		}
		base = b // sorted by instant: the last one has the largest requested time
	}
	belongs := func(instant string) bool {
		return f.visible(instant, cut) && (base == nil || f.completedAtOrAfter(instant, base.Instant))
	}
	var logs []*File
	for _, l := range x.logs {
		if f.unclaimed(l) {
			if f.visible(l.Instant, cut) {
				s.Ignored++
			}
			continue
		}
		if slices.ContainsFunc(f.writersOf(l), belongs) {
			logs = append(logs, l)
		}
	}
	if base == nil && len(logs) == 0 {
		return Slice{}, false, nil
	}
	if base != nil {
		if err := f.check(base); err != nil {
			return Slice{}, false, err
		}
		c := *base
		s.Base, s.Instant = &c, base.Instant
	}
	for _, l := range logs {
		if err := f.check(l); err != nil {
			return Slice{}, false, err
		}
		s.Logs = append(s.Logs, *l)
		if base == nil && (s.Instant == "" || l.Instant < s.Instant) {
			s.Instant = l.Instant
		}
	}
	s.keep = belongs
	return s, true, nil
}

// retired says that cleans took all that is known of a group, and that no instant of the look replaced it. A clean leaves the
// newest slice of a group that lives, so an archived instant did, and the group shows nothing at or after the first
// instant of the look.
func (x *group) retired() bool {
	taken := func(file *File) bool { return file.cleaned && !file.Present }
	left := func(file *File) bool { return !taken(file) }
	return len(x.replaced) == 0 && len(x.bases)+len(x.logs) > 0 && !slices.ContainsFunc(x.bases, left) && !slices.ContainsFunc(x.logs, left)
}

// Slices returns the slices of all groups at the cut, by partition and file id. It ends at the first error.
func (f *Files) Slices(cut Cut) iter.Seq2[Slice, error] {
	return func(yield func(Slice, error) bool) {
		for _, g := range f.order {
			s, ok, err := f.Slice(g, cut)
			if !ok && err == nil {
				continue
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// reaches refuses snapshots that end before the look's history: which files they need is not known, and a group whose files
// were cleaned would silently be missing.
func (f *Files) reaches(cut Cut) error {
	if cut.Upto == "" || cut.Upto >= f.t.from {
		return nil
	}
	return &storage.Error{Op: "find slice", Path: "snapshot at " + cut.Upto, Hint: "choose an instant of the active timeline",
		Err: fmt.Errorf("it lies before the active timeline, which begins at %s: %w", f.t.from, ErrGone)}
}

// visible says whether an instant is completed and in the cut.
func (f *Files) visible(requested string, cut Cut) bool {
	inst, active := f.t.Timeline.Find(requested)
	if active && inst.Requested == requested {
		if !inst.IsDataWrite() || cut.In != nil && !cut.In(inst) {
			return false
		}
		return cut.holds(inst.Completed)
	}
	if _, ok := f.t.Timeline.IsCompleted(requested); !ok {
		return false
	}
	completed := f.completed[requested] // "": not known, and not needed: it completed before
	return completed == "" || cut.holds(completed)
}

func (c Cut) holds(completed string) bool {
	return c.Upto == "" || completed < c.Upto || completed == c.Upto && !c.Before
}

// completedAtOrAfter says whether a completed instant completed at or after the requested time key.
func (f *Files) completedAtOrAfter(instant, key string) bool {
	if instant >= key { // it completed after it was requested
		return true
	}
	if c, ok := f.t.Timeline.CompletionOf(instant); ok {
		return c >= key
	}
	return f.completed[instant] >= key
}

// archivedTimes returns the completion times of archived instants whose logs stand beside a base file requested later: only they
// tell on which side of that base the log belongs. Without such a log nothing is read.
func (f *Files) archivedTimes(ctx context.Context) (map[string]string, error) {
	from, to := "", ""
	for _, x := range f.groups {
		if len(x.bases) == 0 {
			continue
		}
		newest := x.bases[len(x.bases)-1].Instant
		for _, l := range x.logs {
			if _, active := f.t.Timeline.CompletionOf(l.Instant); active || l.Instant >= newest {
				continue
			}
			if _, ok := f.t.Timeline.IsCompleted(l.Instant); ok {
				if from == "" || l.Instant < from {
					from = l.Instant
				}
				to = max(to, l.Instant)
			}
		}
	}
	if from == "" {
		return nil, nil
	}
	times := map[string]string{}
	for inst, err := range f.t.Archive().Instants(ctx, from, to) {
		if err != nil {
			return nil, fmt.Errorf("read archived completion times: %w", err)
		}
		if inst.IsDataWrite() {
			times[inst.Requested] = inst.Completed
		}
	}
	return times, nil
}

// writersOf returns the instants that wrote into a log: those whose stats say so. Without any, the one in the name.
func (f *Files) writersOf(l *File) []string {
	if len(l.writers) == 0 {
		return []string{l.Instant}
	}
	if slices.Contains(l.writers, l.Instant) {
		return l.writers
	}
	if _, active := f.t.Timeline.CompletionOf(l.Instant); active {
		return l.writers
	}
	return append(slices.Clip(l.writers), l.Instant)
}

// unclaimed says that the file's instant is an active completed write whose metadata does not name the file. Logs of tables
// that were version 6 are excepted: their names carry the base instant.
func (f *Files) unclaimed(file *File) bool {
	if len(file.writers) > 0 || file.Log && f.t.wasVersion6() {
		return false
	}
	inst, ok := f.t.Timeline.Find(file.Instant)
	return ok && inst.Requested == file.Instant && inst.IsDataWrite()
}

// wasVersion6 says whether logs may have names of version 6: the table began below version 8, or does not say.
func (t *Table) wasVersion6() bool {
	v := t.Props.Raw["hoodie.table.initial.version"]
	return v != "8" && v != "9"
}

// check says whether the file is there, whole.
func (f *Files) check(file *File) error {
	if !file.Present {
		return &storage.Error{Op: "find slice", Path: file.Path, Hint: "the table's cleaner has taken it: use a later instant", Err: ErrGone}
	}
	if file.Size < file.expect {
		return &storage.Error{Op: "find slice", Path: file.Path, Hint: "the file is damaged: restore it from a copy",
			Err: fmt.Errorf("%d bytes, its commit wrote %d: %w", file.Size, file.expect, storage.ErrCorrupt)}
	}
	return nil
}
