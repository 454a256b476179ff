package markers

import (
	"slices"
	"strings"

	"tidemark/timeline"
)

// Set is what one index incorporates. Keys are requested times, values completion times, both in the
// table's own time text. The zero Set incorporates nothing. A Set is not changed by this package.
type Set struct {
	// Baseline holds the instants of the snapshot that the index was built from, as far as they were on the
	// active timeline then.
	Baseline map[string]string
	// Before is a completion time: every archived data write that completed before it is in the baseline. Empty:
	// none. It says nothing about instants of the active timeline: those are in the sets, or they need a marker,
	// whatever their times say (design decision 9: completion times may go backwards).
	Before string
	// Covered holds the instants that have a marker.
	Covered map[string]string
}

// Has reports whether a completed data write of the active timeline is incorporated: in the baseline, or covered by a marker
// (RFC-109 section 9.1). An instant at or below the baseline's time that is not in its set needs a marker.
func (s Set) Has(i timeline.Instant) bool {
	if c, ok := s.Baseline[i.Requested]; ok {
		return c == i.Completed
	}
	if c, ok := s.Covered[i.Requested]; ok {
		return c == i.Completed
	}
	return false
}

// Due returns the completed data writes that are not incorporated, in completion order (ties by requested
// time).
func (s Set) Due(writes []timeline.Instant) []timeline.Instant {
	var due []timeline.Instant
	for _, i := range writes {
		if !s.Has(i) {
			due = append(due, i)
		}
	}
	return inOrder(due)
}

// ByCompletion orders completed instants by completion time, then by requested time.
func ByCompletion(a, b timeline.Instant) int {
	if c := strings.Compare(a.Completed, b.Completed); c != 0 {
		return c
	}
	return strings.Compare(a.Requested, b.Requested)
}

// Frontier is a contiguous frontier and what keeps it from going further.
type Frontier struct {
	// Requested and Completed are the times of the frontier's instant; both empty if there is no frontier.
	Requested, Completed string
	// Open is the requested time of the earliest table service that was planned before the frontier and was not incorporated when it
	// was computed; empty if there was none. Its plan did not hold the frontier, but what it becomes is not covered by it (see Known).
	Open string
	// HeldBy is the instant that the frontier cannot pass: the first one not incorporated, or a pending
	// write. nil if the frontier stands at the newest completed data write.
	HeldBy *timeline.Instant
}

// Compute returns the largest frontier that the active timeline allows (RFC-109 section 9.1): F may be a
// completed data write's completion time if every data write completed at or before F is incorporated and
// no pending commit, deltacommit or replacecommit was requested before F. Pending compaction, log
// compaction and clustering plans never hold it.
//
// DECISION: a completed write that is not incorporated and was requested before F holds F as well, as a
// pending one does. So whatever the archiver takes away unseen was requested after F, and a frontier at or
// above the earliest active instant's requested time proves that nothing was missed.
//
// writes are the completed data writes of the active timeline, pending its pending instants. prev is the
// frontier known before; it is returned unchanged if the timeline shows nothing newer, and never exceeded
// backwards: a frontier does not go back here (an undone instant is found by its absence, see coverage).
func Compute(prev Frontier, set Set, writes, pending []timeline.Instant) Frontier {
	return course(prev, set, writes, pending).Frontier()
}

// Valid reports whether a frontier may stand where it does on a timeline that was read anew: the rule of
// Compute for one given time. The empty frontier always may. by is an instant that speaks against it. A table service that has
// completed after the frontier does not, although it was requested before: its plan did not hold the frontier while it was
// pending.
func Valid(completed string, set Set, writes, pending []timeline.Instant) (ok bool, by timeline.Instant) {
	for _, w := range writes {
		if !set.Has(w) && (w.Completed <= completed || w.Requested < completed && !planned(w)) {
			return false, w
		}
	}
	for _, p := range pending {
		if Holds(p) && p.Requested < completed {
			return false, p
		}
	}
	return true, timeline.Instant{}
}

// planned reports whether an instant was pending under the name of a table service.
func planned(i timeline.Instant) bool { return i.Pending != "" && i.Pending != i.Pending.Completes() }

// Holds reports whether a pending instant holds the frontier (design decision 8): pending commit,
// deltacommit and replacecommit do, plans of table services do not.
func Holds(i timeline.Instant) bool {
	if i.State == timeline.Completed {
		return false
	}
	switch i.Action {
	case timeline.Commit, timeline.DeltaCommit, timeline.ReplaceCommit:
		return true
	}
	return false
}

// Known reports whether the active timeline is enough to judge a frontier. earliest is the requested time
// of the earliest active instant, upto that of the newest archived one, "" if nothing was ever archived. A frontier older than the
// earliest active instant says nothing about what the archive took (RFC-109 section 9.1), nor does one that passed the plan
// of a table service which the archive may have taken since.
func Known(f Frontier, set Set, earliest, upto string) bool {
	if upto == "" {
		return true
	}
	if earliest == "" || upto != anything && upto >= earliest {
		// All that was active has been rolled back, or is kept by a savepoint only, or something active lies where no archiver leaves it:
		// what is archived may lie anywhere up to its newest.
		earliest = upto + "0"
	}
	if set.Before != "" && set.Before >= earliest {
		return true
	}
	return f.Completed != "" && f.Completed >= earliest && (f.Open == "" || f.Open >= earliest)
}

// anything stands for an archive of which nothing is known yet.
const anything = "9"

// Group is the instants that share one completion time and so one marker.
type Group struct {
	// Completed is the completion time, the marker's key.
	Completed string
	// Requested are the requested times it certifies, ascending.
	Requested []string
}

// Text is the marker's dataInstant: the requested times joined by commas (design decision 6).
func (g Group) Text() string { return strings.Join(g.Requested, ",") }

// Groups returns one marker for each completion time among instants, ascending. covered are the instants
// that have a marker already (requested → completed): those of the same completion time are named again, so
// that the newer record, which replaces the older one, certifies them all.
func Groups(instants []timeline.Instant, covered map[string]string) []Group {
	by := map[string][]string{}
	for _, i := range instants {
		by[i.Completed] = append(by[i.Completed], i.Requested)
	}
	for requested, completed := range covered {
		if _, ok := by[completed]; ok {
			by[completed] = append(by[completed], requested)
		}
	}
	groups := make([]Group, 0, len(by))
	for completed, requested := range by {
		slices.Sort(requested)
		groups = append(groups, Group{Completed: completed, Requested: slices.Compact(requested)})
	}
	slices.SortFunc(groups, func(a, b Group) int { return strings.Compare(a.Completed, b.Completed) })
	return groups
}

// Lag is how far an index is behind, in the table's own terms.
type Lag struct {
	// Instants is the number of completed data writes that are not incorporated.
	Instants int
	// Latest is the newest completed data write; zero if there is none.
	Latest timeline.Instant
	// Upto is the newest completion time up to which all completed data writes are incorporated; empty if
	// not even the first one is.
	Upto string
	// FirstUncovered is the first completed data write that is not incorporated; zero if there is none.
	FirstUncovered timeline.Instant
	// CoveredAhead is the number of incorporated instants that completed after FirstUncovered.
	CoveredAhead int
}

// Measure counts the lag over the completed data writes of the active timeline. frontier is used for Upto
// where no active write is incorporated.
func Measure(set Set, writes []timeline.Instant, frontier string) Lag {
	ordered := inOrder(writes)
	l := Lag{Upto: frontier}
	for _, w := range ordered {
		l.Latest = w
		if !set.Has(w) {
			l.Instants++
			if l.Instants == 1 {
				l.FirstUncovered = w
			}
			continue
		}
		if l.Instants > 0 {
			l.CoveredAhead++
			continue
		}
		if w.Completed > l.Upto {
			l.Upto = w.Completed
		}
	}
	if l.Instants > 0 && l.Upto >= l.FirstUncovered.Completed {
		l.Upto = lastBefore(ordered, l.FirstUncovered.Completed)
	}
	return l
}

func lastBefore(ordered []timeline.Instant, completed string) string {
	last := ""
	for _, w := range ordered {
		if w.Completed < completed {
			last = w.Completed
		}
	}
	return last
}

// Vanished returns the requested times of incorporated instants that are neither on the active timeline nor in the
// archive, ascending: they were rolled back or restored away. That the archive reaches further says nothing: the instant that
// undid one may itself be archived by then. writes are the completed data writes of the active timeline, archived what the archive
// has of the missing ones (requested → completion time, empty in rows of old writers).
func Vanished(set Set, writes []timeline.Instant, archived map[string]string) []string {
	return vanished(set, Missing(set, writes), archived)
}

// vanished is Vanished of what is missing.
func vanished(set Set, missing []string, archived map[string]string) []string {
	return slices.DeleteFunc(missing, func(requested string) bool {
		completed, there := archived[requested]
		return there && (completed == "" || completed == set.completed(requested))
	})
}

// completed is the completion time under which an instant is incorporated.
func (s Set) completed(requested string) string {
	if c, ok := s.Baseline[requested]; ok {
		return c
	}
	return s.Covered[requested]
}

// Missing returns the requested times of incorporated instants that are not on the active timeline, ascending:
// archived or undone (see Vanished).
func Missing(set Set, writes []timeline.Instant) []string { return missing(set, timesOf(writes)) }

// timesOf returns the completion times of completed instants by requested time.
func timesOf(writes []timeline.Instant) map[string]string {
	times := make(map[string]string, len(writes))
	for _, w := range writes {
		times[w.Requested] = w.Completed
	}
	return times
}

func missing(set Set, active map[string]string) []string {
	var out []string
	for _, m := range []map[string]string{set.Baseline, set.Covered} {
		for requested, completed := range m {
			if c, ok := active[requested]; !ok || c != completed {
				out = append(out, requested)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
