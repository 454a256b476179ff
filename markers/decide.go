package markers

import (
	"maps"
	"slices"

	"tidemark/timeline"
)

// Look is what one look at a table's timeline says, as plain data. The decisions below are made from it and from what
// an index claims, and from nothing else.
type Look struct {
	// Writes are the completed data writes of the active timeline, Pending its pending instants.
	Writes, Pending []timeline.Instant
	// Undoings are its completed restores and rollbacks.
	Undoings []timeline.Instant
	// Earliest is the requested time of the earliest active write, "" if there is none (timeline.Timeline.Earliest).
	Earliest string
	// Archived holds those of the instants that AskArchive names which the archive has, requested → completion time, and
	// Upto is the newest requested time in the archive, "" if nothing was archived. They must have been read after the active
	// timeline: the archiver deletes an instant's files only once the archive has it, so what is in neither place was undone.
	Archived map[string]string
	Upto     string

	// Began is the requested time at which the active timeline began when that was noted last, and Reached how far the archive reached
	// then; "" if nobody noted it. A timeline that begins earlier now has something where no archiver leaves it: see Known.
	Began, Reached string

	times map[string]string // of Writes, requested → completion time; nil: not looked up yet
}

// LookAt returns what a timeline says. Archived and Upto are left to the caller.
func LookAt(t *timeline.Timeline) Look {
	l := Look{Writes: t.Writes(), Pending: t.Pending(), Earliest: t.Earliest()}
	for _, a := range []timeline.Action{timeline.Restore, timeline.Rollback} {
		l.Undoings = append(l.Undoings, t.CompletedOf(a)...)
	}
	slices.SortStableFunc(l.Undoings, ByCompletion)
	l.times = timesOf(l.Writes)
	return l
}

// missing is Missing in the look.
func (l Look) missing(set Set) []string {
	if l.times == nil {
		return Missing(set, l.Writes)
	}
	return missing(set, l.times)
}

// Claim is what an index says about itself: what it incorporates and how far its frontier reaches.
type Claim struct {
	Set      Set
	Frontier Frontier
}

// Equal reports whether two claims say the same.
func (c Claim) Equal(o Claim) bool {
	return c.Frontier.Requested == o.Frontier.Requested && c.Frontier.Completed == o.Frontier.Completed && c.Frontier.Open == o.Frontier.Open &&
		c.Set.Before == o.Set.Before && maps.Equal(c.Set.Baseline, o.Set.Baseline) && maps.Equal(c.Set.Covered, o.Set.Covered)
}

// AskArchive returns which instants a look must look for in the archive to judge a claim, ascending: the incorporated ones that are
// not on the active timeline. needed also says whether it matters at all what was archived: the frontier does
// not reach the active timeline.
func (l Look) AskArchive(c Claim) (missing []string, needed bool) {
	missing = l.missing(c.Set)
	odd := l.Began != "" && l.Earliest != "" && (l.Earliest < l.Began || l.Earliest <= l.Reached)
	return missing, odd || len(missing) > 0 || !Known(c.Frontier, c.Set, l.Earliest, anything)
}

// Undone returns the requested times of incorporated instants that were rolled back or restored away; see Vanished.
func (l Look) Undone(c Claim) []string { return vanished(c.Set, l.missing(c.Set), l.Archived) }

// Behind reports whether commits may have been archived that the claim does not cover; see Known.
func (l Look) Behind(c Claim) bool {
	return !Known(c.Frontier, c.Set, l.Earliest, l.Upto)
}

// Unhandled returns the completed restores and rollbacks that are not in handled (requested → completion time).
func (l Look) Unhandled(handled map[string]string) []timeline.Instant {
	var out []timeline.Instant
	for _, i := range l.Undoings {
		// A derived completion time changes when the table is copied, so the requested time decides there.
		if done, ok := handled[i.Requested]; !ok || done != i.Completed && !i.Derived {
			out = append(out, i)
		}
	}
	return out
}

// Holds returns the first of some requested times that the set holds, "" if it holds none: what a restore or rollback
// undid of an index.
func (s Set) Holds(requested []string) string {
	for _, at := range requested {
		_, base := s.Baseline[at]
		_, covered := s.Covered[at]
		if base || covered {
			return at
		}
	}
	return ""
}

// Moves reports whether the frontier of a claim may move although nothing is due: a pending write that held it has been
// rolled back, say.
func (l Look) Moves(c Claim) bool {
	return Compute(c.Frontier, c.Set, l.Writes, l.Pending).Completed != c.Frontier.Completed
}

// Cover returns the claim after some instants were incorporated; the claim before is not changed.
func (l Look) Cover(c Claim, done []timeline.Instant) Claim {
	course := l.Course(c)
	course.Cover(done)
	return Claim{Set: course.set, Frontier: course.Frontier()}
}

// Forget returns the incorporated instants that the archiver has taken, and that a claim needs no longer name: they lie
// before the earliest active instant, at or below the frontier.
func (l Look) Forget(c Claim) []string {
	return slices.DeleteFunc(l.missing(c.Set), func(requested string) bool {
		completed, ok := c.Set.Covered[requested]
		if !ok {
			completed = c.Set.Baseline[requested]
		}
		return requested >= l.Earliest || completed > c.Frontier.Completed
	})
}

// Against returns what speaks against a claim that is about to become visible in place of another one, "" if nothing does: an
// incorporated instant that is gone, one that is given up although it is there (the listing that the claim was made from had
// missed it), or one that is not below the frontier although the frontier says so. A frontier that
// does not move is not judged: a write with an old requested time may appear after it, and that must not stop the commits
// after it from being covered.
func (l Look) Against(before, after Claim) (requested string, gone bool) {
	if undone := l.Undone(after); len(undone) > 0 {
		return undone[0], true
	}
	for _, w := range l.Writes {
		if before.Set.Has(w) && !after.Set.Has(w) {
			return w.Requested, false
		}
	}
	if before.Frontier.Requested == after.Frontier.Requested && before.Frontier.Completed == after.Frontier.Completed {
		return "", false
	}
	if ok, by := Valid(after.Frontier.Completed, after.Set, l.Writes, l.Pending); !ok {
		return by.Requested, false
	}
	return "", false
}

// Rebase returns the claim of an index that was made equal to the newest snapshot: it holds every completed data write of the
// active timeline and everything that is archived, and nothing that was undone. The frontier is the largest that the timeline
// allows; an older one that still stands is kept.
func (l Look) Rebase(c Claim) Claim {
	undone := l.Undone(c)
	without := func(m map[string]string) map[string]string {
		out := make(map[string]string, len(m))
		for requested, completed := range m {
			if !slices.Contains(undone, requested) {
				out[requested] = completed
			}
		}
		return out
	}
	set := Set{Baseline: without(c.Set.Baseline), Before: max(c.Set.Before, l.Earliest), Covered: without(c.Set.Covered)}
	for _, w := range l.Writes {
		if set.Baseline[w.Requested] != w.Completed {
			delete(set.Baseline, w.Requested)
			set.Covered[w.Requested] = w.Completed
		}
	}
	old := c.Frontier
	if slices.Contains(undone, old.Requested) {
		old = Frontier{}
	}
	return Claim{Set: set, Frontier: Compute(old, set, l.Writes, l.Pending)}
}

// Doubt is why an answer must not be called fresh; the zero Doubt is none (design decision 9).
type Doubt struct {
	// Undone are incorporated instants that were rolled back or restored away.
	Undone []string
	// Behind says that commits may have been archived unseen.
	Behind bool
	// Unhandled are completed restores and rollbacks that are not dealt with.
	Unhandled []timeline.Instant
	// Due are the completed data writes that are not incorporated, in completion order.
	Due []timeline.Instant
}

// Fresh reports whether exactly the completed data writes of the look are incorporated.
func (d Doubt) Fresh() bool {
	return len(d.Undone) == 0 && !d.Behind && len(d.Unhandled) == 0 && len(d.Due) == 0
}

// Doubt judges a claim. handled are the restores and rollbacks that were dealt with.
func (l Look) Doubt(c Claim, handled map[string]string) Doubt {
	return Doubt{Undone: l.Undone(c), Behind: l.Behind(c), Unhandled: l.Unhandled(handled), Due: c.Set.Due(l.Writes)}
}
