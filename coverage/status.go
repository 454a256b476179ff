package coverage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Deps is what coverage works with.
type Deps struct {
	// Place names the table and the sink.
	Place mdt.Place
	// Table is the table as the user names it, for the commands that are proposed. Defaults to the store's URL.
	Table string
	// Sink is the place beside the table as the user names it, for the same commands. Defaults to none: inside the table.
	Sink string
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// ZoneOffset is the offset of the table's instant texts from UTC. Defaults to zero for a table in UTC, and is otherwise
	// derived from the newest instant (design, section 5).
	ZoneOffset *time.Duration
	// Known is what this process has looked at already: one that asks again and again passes the same one. Defaults to nothing.
	Known *Known
}

func (d Deps) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}

func (d Deps) table() string {
	if d.Table == "" {
		return d.Place.Store.URL()
	}
	return d.Table
}

// State is the state of one index.
type State string

// The states. When several hold, the first in this order is shown.
const (
	StateUnsupported State = "unsupported"           // the table cannot carry an index
	StateAbsent      State = "absent"                // there is no index, or its files are gone
	StateHandedOver  State = "handed_over"           // an engine that knows vector indexes owns the partition
	StateFailClosed  State = "fail_closed"           // the vector column is another one than the index was built on
	StateBlocked     State = "blocked"               // an operator must act
	StateStalled     State = "stalled"               // the timeline or the state cannot be read
	StatePaused      State = "paused"                // by an operator
	StateCatchingUp  State = "catching_up"           // commits are due
	StateDegraded    State = "degraded_current_only" // dead rows of some file groups wait for a reconcile
	StateWaiting     State = "waiting_inflight"      // a pending write holds the frontier
	StateFresh       State = "fresh"                 // covers the newest snapshot
)

// Times names an instant by both its times.
type Times struct {
	Requested string `json:"requested"`
	Completed string `json:"completed"`
}

// Gap is a data write that the index does not cover, or one that holds its frontier.
type Gap struct {
	Requested string          `json:"requested"`
	Completed *string         `json:"completed"` // null while it is not completed, or not known
	Action    timeline.Action `json:"action"`
	// Reason is pending (completed, not yet processed), inflight (not completed), archived, failed (cannot be read),
	// restored (undone, but in the index), quarantined (set aside after repeated failures, or by an operator) or unaware_writer.
	Reason string `json:"reason"`
	// Skipped is why an operator lets the commit be; "" if nobody does.
	Skipped string `json:"skipped,omitempty"`
	// Writer is who wrote a pending commit, where its metadata tells.
	Writer string `json:"writer,omitempty"`
}

// Horizon is how many more commits it takes until the table forgets what an uncovered instant needs; null if that is not known, or
// nothing is uncovered.
type Horizon struct {
	// Cleaner counts to the first slice that is gone, Archiver to the first instant.
	Cleaner  *int `json:"cleaner_instants"`
	Archiver *int `json:"archiver_instants"`
	// CleanerAbout and ArchiverAbout say about how long that is at the present pace; "" if that is not known.
	CleanerAbout  string `json:"cleaner_about,omitempty"`
	ArchiverAbout string `json:"archiver_about,omitempty"`
}

// IndexStatus is the state of one index, or of a table without any (Index is nil). Its JSON form is fixed (design, section 5);
// null means that something cannot be known.
type IndexStatus struct {
	Table      string  `json:"table"`
	Index      *string `json:"index"`
	Generation *uint32 `json:"generation"`
	Fresh      bool    `json:"fresh"`
	State      State   `json:"state"`
	Reason     string  `json:"reason"`
	Next       string  `json:"next"`
	// Details is all that a failure behind Reason said, for who looks for its cause.
	Details  string `json:"details,omitempty"`
	Frontier *Times `json:"frontier"`
	// FrontierAt is the moment of the frontier's completion; zero where there is none or the table's zone is not known.
	FrontierAt      time.Time `json:"-"`
	HeldBy          *string   `json:"held_by"` // requested time
	Latest          *Times    `json:"latest"`
	LagInstants     *int      `json:"lag_instants"`
	LagSeconds      *float64  `json:"lag_seconds"`
	OldestUncovered *float64  `json:"oldest_uncovered_seconds"`
	CoveredAhead    *int      `json:"covered_ahead"`
	Degraded        int       `json:"degraded"` // file groups
	// DuplicateKeys are record keys known to live more than once; with MoreDuplicates there are further ones, which are found again when
	// a commit touches them.
	DuplicateKeys  int64 `json:"duplicate_keys,omitempty"`
	MoreDuplicates bool  `json:"duplicate_keys_more,omitempty"`

	// FoldOverdue is the oldest commit of ours whose log files should be in a base file by now: a warning, nothing that makes an answer wrong.
	FoldOverdue string `json:"fold_overdue,omitempty"`

	// Skipped counts the uncovered commits that an operator lets be. Owed is what the rest owes; nil if there is none: see Owes.
	Skipped int   `json:"skipped,omitempty"`
	Owed    *Owed `json:"-"`

	Gaps     []Gap   `json:"gaps"`
	Building bool    `json:"building,omitempty"` // creation is under way or was interrupted: not an index yet
	Horizon  Horizon `json:"horizon"`
}

// look is one consistent look at the table and our state: the state first, then the timeline.
type look struct {
	deps     Deps
	state    *mdt.State // nil if there is none
	stateErr error
	props    *timeline.Properties
	tl       *timeline.Timeline
	offset   *time.Duration
}

// Status judges every index of the table, by name. There is always one object. A path that is no table is
// storage.ErrNotFound; anything else that is wrong with the table is told in the object.
func Status(ctx context.Context, d Deps) ([]IndexStatus, error) {
	l := &look{deps: d}
	state, _, err := mdt.ReadState(ctx, d.Place)
	switch {
	case err == nil:
		l.state = state
	case !gone(err):
		l.stateErr = err
	}
	l.props, l.tl, err = timeline.Open(ctx, d.Place.Store, table.HoodieDir)
	if err != nil {
		return l.unreadable(ctx, err)
	}
	l.setOffset()
	names := l.names()
	if len(names) == 0 {
		s := l.blank(nil)
		l.withoutIndex(ctx, &s)
		return []IndexStatus{s}, nil
	}
	var out []IndexStatus
	for _, name := range names {
		x := l.state.Indexes[name]
		s, err := l.index(ctx, x)
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		if err != nil { // a damaged archive, for one
			s = l.blank(x)
			s.set(StateStalled, fmt.Sprintf("the table cannot be read: %v", err), storage.Hint(err))
		}
		s.FoldOverdue = l.foldOverdue()
		out = append(out, s)
	}
	return out, nil
}

// foldOverdue returns the oldest commit of ours with log files if Hudi may archive it, after which its readers no longer accept them
// (docs/format/commit.md, Fold). Ours do.
func (l *look) foldOverdue() string {
	if _, oldest := l.state.Unfolded(); oldest < l.tl.Earliest() {
		return oldest
	}
	return ""
}

func (l *look) names() []string {
	if l.state == nil {
		return nil
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(l.state.Indexes)) {
		if !l.state.Indexes[name].Dropped {
			out = append(out, name)
		}
	}
	return out
}

// unreadable is the status of a table whose timeline cannot be read: an error if there is no table at all.
func (l *look) unreadable(ctx context.Context, err error) ([]IndexStatus, error) {
	if ctx.Err() != nil {
		return nil, err
	}
	if _, listErr := l.deps.Place.Store.List(ctx, table.HoodieDir); gone(listErr) {
		return nil, err
	}
	state, next := StateStalled, ""
	if errors.Is(err, storage.ErrUnsupported) {
		state = StateUnsupported
	}
	var out []IndexStatus
	add := func(x *mdt.Index) {
		s := l.blank(x)
		s.set(state, fmt.Sprintf("the timeline cannot be read: %v", err), next)
		if h := storage.Hint(err); h != "" {
			s.Next = h
		}
		out = append(out, s)
	}
	for _, name := range l.names() {
		add(l.state.Indexes[name])
	}
	if len(out) == 0 {
		add(nil)
	}
	return out, nil
}

// blank is a status that knows nothing but names.
func (l *look) blank(x *mdt.Index) IndexStatus {
	s := IndexStatus{Table: l.deps.Place.Store.URL(), Gaps: []Gap{}}
	if x != nil {
		s.Index = &x.Name
		if g, ok := x.Active(); ok {
			s.Generation = &g.Number
		}
	}
	if l.tl != nil {
		if writes := l.tl.Writes(); len(writes) > 0 {
			newest := writes[len(writes)-1]
			s.Latest = &Times{newest.Requested, newest.Completed}
			if newest.Derived && l.props.Layout == 1 { // a file's modification time, which says nothing in a copy
				s.Latest.Completed = ""
			}
		}
	}
	return s
}

func (s *IndexStatus) set(state State, reason, next string) {
	s.State, s.Reason, s.Next = state, reason, next
	s.Fresh = s.Fresh && state != StateUnsupported && state != StateAbsent && state != StateHandedOver && state != StateFailClosed && state != StateBlocked && state != StateStalled
}

// withoutIndex fills the status of a table that has no index.
func (l *look) withoutIndex(ctx context.Context, s *IndexStatus) {
	if err := l.props.CheckReadable(); err != nil {
		s.set(StateUnsupported, unwrapReason(err), storage.Hint(err))
		return
	}
	if l.stateErr != nil {
		s.set(StateStalled, l.stateErr.Error(), storage.Hint(l.stateErr))
		return
	}
	column := "COLUMN"
	if vectors, err := l.vectors(ctx); err == nil {
		if len(vectors) == 0 {
			s.set(StateUnsupported, "the table has no VECTOR column", "write the embeddings as VECTOR(n) with Hudi 1.2 or newer")
			return
		}
		column = vectors[0].Column
	}
	create := l.command("index create", "--column "+mdt.Word(column))
	if l.deps.Place.IsBeside() { // the metadata table is made with the index
		s.set(StateAbsent, "no index", create)
		return
	}
	switch there, err := l.standing().metadataTable(ctx); {
	case err != nil:
		s.set(StateStalled, err.Error(), storage.Hint(err))
	case !there:
		s.set(StateAbsent, "no index, and no metadata table to create one in", writeOnce+create+" (or keep it beside the table: --sink URL)")
	default:
		s.set(StateAbsent, "no index", create)
	}
}

func (l *look) vectors(ctx context.Context) ([]avrox.Vector, error) {
	schema, err := l.schema(ctx)
	if err != nil {
		return nil, err
	}
	return schema.Vectors(), nil
}

func (l *look) schema(ctx context.Context) (*avrox.Schema, error) { return l.standing().schema(ctx) }

func (l *look) standing() standing {
	return standing{place: l.deps.Place, state: l.state, props: l.props, tl: l.tl, known: l.deps.Known}
}

// setOffset finds the offset of the table's instant texts, for showing seconds.
func (l *look) setOffset() {
	if l.offset = l.deps.ZoneOffset; l.offset != nil {
		return
	}
	if l.props.Zone == "UTC" {
		l.offset = new(time.Duration)
		return
	}
	var newest timeline.Instant
	for _, i := range l.tl.Instants() {
		if i.State == timeline.Completed && i.Completed > newest.Completed {
			newest = i
		}
	}
	if offset, known := timeline.ZoneOffset(newest); known {
		l.offset = &offset
	}
}

// moment returns the moment an instant text names, if the table's zone is known.
func (l *look) moment(text string) (time.Time, bool) {
	if l.offset == nil || text == "" {
		return time.Time{}, false
	}
	at, err := timeline.InstantTime(text, time.UTC)
	return at.Add(-*l.offset), err == nil
}
