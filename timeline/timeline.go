package timeline

import (
	"context"
	"path"
	"slices"
	"time"

	"tidemark/internal/storage"
)

// Timeline is an immutable look at the active timeline: the instants of one listing. It is safe for concurrent use.
type Timeline struct {
	instants []Instant // completed ones by (completed, requested), then pending ones by requested time
	byTime   map[string][]int
	writes   []Instant // the completed data writes of instants, as Writes returns them
	earliest string
	begins   string // earliest, or the earliest write if savepoints keep all of them
	// after hides archived instants that completed up to then, in a view of the timeline whole.
	after string
	whole *Timeline
	// active is the timeline that With was asked of; nil if this is none with archived instants.
	active *Timeline
}

// Load lists the active instants of the timeline that belongs to dir (".hoodie" for a data table, ".hoodie/metadata/.hoodie"
// for its metadata table). It makes one listing, which of many files is not one moment: see Open. Files that are no instants are
// ignored. What would be an instant but cannot be one is storage.ErrCorrupt, naming the file: a time that no writer can have
// taken, and two completed files of one instant. A missing timeline folder is storage.ErrNotFound.
func Load(ctx context.Context, st storage.Store, dir string, p *Properties) (*Timeline, error) {
	infos, err := listTimeline(ctx, st, dir, p)
	if err != nil {
		return nil, err
	}
	return build(infos, p.Zone)
}

// Open reads the properties and the active timeline as one consistent look, as Reader.Open does.
func Open(ctx context.Context, st storage.Store, dir string) (*Properties, *Timeline, error) {
	return NewReader(st, dir).Open(ctx)
}

type instantKey struct {
	requested string
	action    Action // as completed
}

// build makes a timeline of a listing.
func build(infos []storage.Info, zone string) (*Timeline, error) {
	byKey := map[instantKey]*Instant{}
	for _, info := range infos {
		name := path.Base(info.Path)
		n, ok := parseName(name)
		if !ok || info.IsDir {
			continue
		}
		if err := n.checkTimes(); err != nil {
			// To ignore it could hide a commit, to follow it leads nowhere.
			return nil, &storage.Error{Op: "list timeline", Path: info.Path, Err: err,
				Hint: "no writer with a right clock makes such a file: find out where it comes from, and roll that instant back or move the file away"}
		}
		key := instantKey{n.requested, n.action.Completes()}
		inst := byKey[key]
		if inst == nil {
			inst = &Instant{Requested: n.requested, State: -1}
			byKey[key] = inst
		}
		if err := inst.add(n, name, info); err != nil {
			return nil, err
		}
	}
	tl := &Timeline{}
	for _, inst := range byKey {
		tl.instants = append(tl.instants, *inst)
	}
	tl.deriveCompletions(zone)
	slices.SortFunc(tl.instants, compare)
	tl.index()
	saved, writes := map[string]bool{}, map[string]Instant{}
	for _, inst := range tl.instants {
		if inst.Action == Savepoint {
			saved[inst.Requested] = true
		}
		if !inst.IsDataWrite() {
			continue
		}
		if other, twice := writes[inst.Requested]; twice && other.Completed != inst.Completed {
			// A requested time names a write, in rows and in log blocks: it cannot be at two places in the order.
			return nil, &storage.Error{Op: "list timeline", Path: inst.File, Hint: "find out which of the two is right and roll the other one back",
				Err: damaged("two writes have one requested time and complete at two: %s is there as well", other.File)}
		}
		writes[inst.Requested] = inst
	}
	for _, inst := range tl.instants {
		if !inst.Action.IsWrite() {
			continue
		}
		if !saved[inst.Requested] && (tl.earliest == "" || inst.Requested < tl.earliest) {
			tl.earliest = inst.Requested
		}
		if tl.begins == "" || inst.Requested < tl.begins {
			tl.begins = inst.Requested
		}
	}
	if tl.earliest != "" {
		tl.begins = tl.earliest
	}
	return tl, nil
}

// index fills byTime and writes.
func (t *Timeline) index() {
	t.writes = slices.Clip(t.where(Instant.IsDataWrite))
	t.byTime = make(map[string][]int, 2*len(t.instants))
	for i, inst := range t.instants {
		t.byTime[inst.Requested] = append(t.byTime[inst.Requested], i)
		if inst.Completed != "" && inst.Completed != inst.Requested {
			t.byTime[inst.Completed] = append(t.byTime[inst.Completed], i)
		}
	}
}

// add takes one more file of the instant into account.
func (i *Instant) add(n nameOf, name string, info storage.Info) error {
	if i.Started.IsZero() || info.ModTime.Before(i.Started) {
		i.Started = info.ModTime
	}
	if n.state != Completed {
		i.Pending = n.action
	}
	if n.state == Requested {
		i.Plan = name
	}
	// Hudi's own readers keep whichever of two completed files their listing shows first, so that no answer would be right. A
	// writer that tried again after an unknown outcome, or a copy over an older copy, leaves them.
	if n.state == Completed && i.State == Completed && n.completed != "" && i.Completed != "" {
		return &storage.Error{Op: "list timeline", Path: info.Path, Hint: "find out which of the two is right and move the other file away",
			Err: damaged("%s %s has completed twice: %s is there as well", n.action, n.requested, i.File)}
	}
	// Of two completed files the one with a completion time in its name counts: the other is a leftover of an upgrade.
	if n.state > i.State || n.state == i.State && n.completed > i.Completed {
		i.State, i.Action, i.Completed = n.state, n.action, n.completed
		i.File, i.ModTime, i.Size = name, info.ModTime, info.Size
	}
	return nil
}

// deriveCompletions gives completed instants without a completion time in their name the file's modification time.
//
// DECISION: a table in zone LOCAL does not say which zone that is; the offset then comes from the newest such instant's
// requested time against its file's modification time, and is zero when that says nothing (a copied table).
func (t *Timeline) deriveCompletions(zone string) {
	var newest Instant
	for _, inst := range t.instants {
		if inst.State == Completed && inst.Completed == "" && inst.Requested > newest.Requested {
			newest = inst
		}
	}
	if newest.Requested == "" {
		return
	}
	var offset time.Duration
	if zone != "UTC" {
		offset, _ = ZoneOffset(newest)
	}
	for i := range t.instants {
		inst := &t.instants[i]
		if inst.State == Completed && inst.Completed == "" {
			inst.Completed = format(inst.ModTime.UTC().Add(offset))
			inst.Derived = true
		}
	}
}

// Instants returns all instants: completed ones by (completed, requested) time, then pending ones by requested time. The
// slice is the caller's.
func (t *Timeline) Instants() []Instant { return t.where(func(Instant) bool { return true }) }

// Writes returns the completed data writes by (completed, requested) time. The slice is shared and must not be changed: to ask again, or
// to ask a later view of a long history, costs nothing for each of them.
func (t *Timeline) Writes() []Instant { return t.writes }

// Pending returns the instants without a completed file, by requested time.
func (t *Timeline) Pending() []Instant {
	return t.where(func(i Instant) bool { return i.State != Completed })
}

// CompletedOf returns the completed instants of an action, by completion time.
func (t *Timeline) CompletedOf(a Action) []Instant {
	return t.where(func(i Instant) bool { return i.State == Completed && i.Action == a })
}

func (t *Timeline) where(keep func(Instant) bool) []Instant {
	n := 0
	for i := range t.instants {
		if inst := &t.instants[i]; !t.hides(inst) && keep(*inst) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	out := make([]Instant, 0, n)
	for i := range t.instants {
		if inst := &t.instants[i]; !t.hides(inst) && keep(*inst) {
			out = append(out, *inst)
		}
	}
	return out
}

// hides says whether the view leaves an instant out.
func (t *Timeline) hides(i *Instant) bool {
	return i.Archived && i.Completed <= t.after && t.whole != nil
}

// With returns a timeline that has archived instants as well: Instants, Writes, CompletedOf, Find and CompletionOf know them.
// Earliest and IsCompleted stay those of the active timeline: what it does not know and lies before Earliest is archived. Instants
// that t has already are left out.
func (t *Timeline) With(archived []Instant) *Timeline {
	out := &Timeline{instants: slices.Clone(t.instants), earliest: t.earliest, begins: t.begins, active: t}
	for _, i := range archived {
		if !t.has(i) {
			out.instants = append(out.instants, i)
		}
	}
	slices.SortFunc(out.instants, compare)
	out.index()
	return out
}

// view returns what With would return without the archived instants that completed up to a time. It shares t's memory.
func (t *Timeline) view(after string) *Timeline {
	out := &Timeline{instants: t.instants, byTime: t.byTime, earliest: t.earliest, begins: t.begins, after: after, whole: t.Whole(), active: t.active}
	shown := func(writes []Instant) (hidden, rest []Instant) {
		n, _ := slices.BinarySearchFunc(writes, after, func(i Instant, at string) int {
			if i.Completed <= at {
				return -1
			}
			return 1
		})
		return writes[:n:n], slices.Clip(writes[n:])
	}
	_, out.writes = shown(out.whole.writes)
	if t.active == nil {
		out.writes = out.whole.writes
	} else if early, _ := shown(t.active.writes); len(early) > 0 { // nothing hides what is active
		out.writes = slices.Concat(early, out.writes)
	}
	return out
}

// Whole returns the longest history that was read for t, t itself if there is none longer: it may have archived instants that t
// leaves out because they completed up to the time that was asked for.
func (t *Timeline) Whole() *Timeline {
	if t.whole != nil {
		return t.whole
	}
	return t
}

// has says whether t has an instant of that requested time and completed action, in whatever state.
func (t *Timeline) has(i Instant) bool {
	for _, n := range t.byTime[i.Requested] {
		if o := &t.instants[n]; o.Requested == i.Requested && o.Action.Completes() == i.Action.Completes() && !t.hides(o) {
			return true
		}
	}
	return false
}

// Earliest returns the requested time of the earliest active write instant, pending ones included. Commits kept only by a
// savepoint are left out, since archival passes them. What was requested earlier and is not on the active timeline is
// archived, hence completed. Empty if there is no such instant.
func (t *Timeline) Earliest() string { return t.earliest }

// Find returns the instant with that requested or, failing that, completion time. Of several it returns a completed data
// write first, then any completed instant, then a pending one.
func (t *Timeline) Find(at string) (Instant, bool) {
	best, score := Instant{}, 0
	for _, i := range t.byTime[at] {
		inst := t.instants[i]
		if t.hides(&inst) {
			continue
		}
		s := 1
		if inst.State == Completed {
			s += 1
		}
		if inst.IsDataWrite() {
			s += 1
		}
		if inst.Requested == at {
			s += 4
		}
		if s > score {
			best, score = inst, s
		}
	}
	return best, score > 0
}

// CompletionOf returns the completion time of the instant requested at that time, if it is on the active timeline and
// completed. Data writes are preferred to a savepoint of the same time.
func (t *Timeline) CompletionOf(requested string) (string, bool) {
	inst, ok := t.Find(requested)
	if !ok || inst.Requested != requested || inst.State != Completed {
		return "", false
	}
	return inst.Completed, true
}

// IsCompleted says whether the instant requested at that time is completed, which is also true for times before Earliest:
// those are archived, and their completion time is not known here (empty). Where savepoints keep all writes that are left, as after a
// restore to one, the earliest of those takes the place of Earliest.
func (t *Timeline) IsCompleted(requested string) (completed string, ok bool) {
	if completed, ok := t.CompletionOf(requested); ok {
		return completed, true
	}
	if inst, found := t.Find(requested); found && inst.Requested == requested {
		return "", false
	}
	return "", t.begins != "" && requested < t.begins
}

// Equal says whether both looks saw the same files for the same instants: nothing has appeared, completed or vanished.
func (t *Timeline) Equal(other *Timeline) bool {
	return slices.EqualFunc(t.instants, other.instants, func(a, b Instant) bool {
		return a.File == b.File && a.Size == b.Size
	})
}
