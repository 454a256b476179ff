package timeline

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// Action is what an instant does, as its file name spells it.
type Action string

// The actions of Hudi's timelines. Compaction, log compaction and clustering have these names only while pending: completed
// they are Commit, DeltaCommit and ReplaceCommit.
const (
	Commit        Action = "commit"
	DeltaCommit   Action = "deltacommit"
	ReplaceCommit Action = "replacecommit"
	Clean         Action = "clean"
	Rollback      Action = "rollback"
	Restore       Action = "restore"
	Savepoint     Action = "savepoint"
	Indexing      Action = "indexing"
	SchemaCommit  Action = "schemacommit"
	Compaction    Action = "compaction"
	LogCompaction Action = "logcompaction"
	Clustering    Action = "clustering"
)

// actions are those above. Another one is taken for an instant, too, if its times can be: later writers may have more.
var actions = []Action{Commit, DeltaCommit, ReplaceCommit, Clean, Rollback, Restore, Savepoint, Indexing, SchemaCommit, Compaction, LogCompaction, Clustering}

// Known says whether this code knows what an action does.
func (a Action) Known() bool { return slices.Contains(actions, a) }

// Completes returns the action under which a pending action is completed.
func (a Action) Completes() Action {
	switch a {
	case Compaction:
		return Commit
	case LogCompaction:
		return DeltaCommit
	case Clustering:
		return ReplaceCommit
	}
	return a
}

// IsWrite says whether instants of this action, pending or completed, write data files (also by a table service).
func (a Action) IsWrite() bool {
	switch a.Completes() {
	case Commit, DeltaCommit, ReplaceCommit:
		return true
	}
	return false
}

// State is how far an instant has got.
type State int

// The states in order.
const (
	Requested State = iota
	Inflight
	Completed
)

// String returns the state as Hudi's file names spell it.
func (s State) String() string {
	switch s {
	case Requested:
		return "requested"
	case Inflight:
		return "inflight"
	}
	return "completed"
}

// Instant is one action on the timeline. Several may share a requested time: a savepoint has that of the commit it saves.
type Instant struct {
	// Requested is the time under which the action was started, in the table's own time text.
	Requested string
	// Completed is the time at which it completed; empty while pending. In layout 1, and for leftovers of an upgrade in
	// layout 2, it is the file's modification time as a text and changes when the table is copied.
	Completed string
	// Action is the action of the furthest file: commit for a completed compaction, compaction for a pending one.
	Action Action
	State  State
	// File is the name of the furthest file, ModTime and Size are that file's.
	File    string
	ModTime time.Time
	Size    int64
	// Pending is the action in the names of its requested and inflight files, empty if none is left. It tells a completed
	// compaction (compaction) from a commit. Archival may have removed it.
	Pending Action
	// Derived says that Completed is a modification time and not in the file's name.
	Derived bool
	// Plan is the name of the requested file, empty if none is left.
	Plan string
	// Archived says that the instant was read from the archived timeline: File, Plan, ModTime, Size and Started are empty then.
	Archived bool
	// Started is the modification time of its earliest file, for showing how long it has been pending.
	Started time.Time
}

// IsDataWrite says whether the instant is a completed commit, deltacommit or replacecommit: an instant that gets a marker
// (RFC-109 section 9.1). Compaction, log compaction and clustering are among them, also when they are empty.
func (i Instant) IsDataWrite() bool { return i.State == Completed && i.Action.IsWrite() }

// nameOf is one parsed timeline file name.
type nameOf struct {
	requested, completed string
	action               Action
	state                State
}

var (
	pendingCommit = regexp.MustCompile(`^(\d+)\.inflight$`)
	instantName   = regexp.MustCompile(`^(\d+)(?:_(\d+))?\.([a-z]+)(?:\.(requested|inflight))?$`)
)

// reserved begins the times of what was there before the first commit: bootstraps, and first commits of the metadata table.
const reserved = "0000000000000"

// Years that instants can lie in. The span between any two is less than a time.Duration holds (292 years).
const (
	firstYear = 1970
	lastYear  = 2261
)

// checkTimes refuses times that no writer can have taken.
func (n nameOf) checkTimes() error {
	for _, t := range []string{n.requested, n.completed} {
		if t == "" || len(t) >= 14 && strings.HasPrefix(t, reserved) {
			continue
		}
		at, err := InstantTime(t, time.UTC)
		if n := len(t); err != nil || n != 14 && n != 17 && n != 20 {
			return damaged("instant %s is no calendar time", t)
		}
		if y := at.Year(); y < firstYear || y > lastYear {
			return damaged("instant %s lies in the year %d", t, y)
		}
	}
	return nil
}

// parseName reads a file name of either layout. Temporary files, checksums and anything else are not instants.
func parseName(name string) (nameOf, bool) {
	// A pending commit has no action in its name; the general form would take "inflight" for the action.
	if m := pendingCommit.FindStringSubmatch(name); m != nil {
		return nameOf{requested: m[1], action: Commit, state: Inflight}, true
	}
	m := instantName.FindStringSubmatch(name)
	if m == nil || m[3] == "requested" || m[3] == "inflight" || m[3] == "tmp" {
		return nameOf{}, false
	}
	n := nameOf{requested: m[1], completed: m[2], action: Action(m[3]), state: Completed}
	switch m[4] {
	case "requested":
		n.state = Requested
	case "inflight":
		n.state = Inflight
	}
	if n.state != Completed && n.completed != "" {
		return nameOf{}, false
	}
	if !slices.Contains(actions, n.action) && n.checkTimes() != nil {
		return nameOf{}, false
	}
	return n, true
}

// compare orders by completion, then requested time, then action; pending instants come last, by requested time.
func compare(a, b Instant) int {
	if (a.State == Completed) != (b.State == Completed) {
		if a.State == Completed {
			return -1
		}
		return 1
	}
	if c := strings.Compare(a.Completed, b.Completed); c != 0 {
		return c
	}
	if c := strings.Compare(a.Requested, b.Requested); c != 0 {
		return c
	}
	return strings.Compare(string(a.Action), string(b.Action))
}
