package indexer

import (
	"cmp"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/timeline"
)

// Observer is told what is written. Its methods are called from many goroutines, must not block, and own nothing that
// they are given beyond the call. Tables are named as the configuration or the caller names them.
type Observer interface {
	// Covered says that one commit is visible in one index: after the commit of the metadata table that made it so.
	Covered(c CoveredInstant)
	// Folded says that a fold of the logs of a table's indexes was made, and how long that took.
	Folded(table string, took time.Duration)
}

// CoveredInstant is one commit that has become visible in one index.
type CoveredInstant struct {
	Table string
	Index string
	// Requested and Completed are the commit's times, as texts of the table's zone.
	Requested, Completed string
	// Action is that of the completed file, Operation the writer's operation type.
	Action, Operation string
	// Mode is full, current_only or merged.
	Mode string
	// Counts are rows by class (design, section 4).
	Counts map[string]int64
	// Commit is the id of the metadata-table commit that holds its changes and its marker.
	Commit string
	// Frontier is the completion time of the index's frontier afterwards; "" if there is none.
	Frontier string
	// CompletedAt is when the commit completed, by the writer's clock; zero where the table's zone is not known.
	CompletedAt time.Time
	Steps       Steps
	// Read and Written are the bytes that were read and written since the table's last covered commit, by kind of file (see Kinds). Of the
	// commits of one batch the first one has them all: their sum is right.
	Read, Written map[string]int64
}

// Lag is how long after the commit's completion its changes were visible; false where that is not known.
func (c CoveredInstant) Lag() (time.Duration, bool) {
	return c.Steps.Visible.Sub(c.CompletedAt), !c.CompletedAt.IsZero() && !c.Steps.Visible.IsZero()
}

// Steps are the moments of the batch that a commit was covered by, by our clock. They ascend; zero: not taken.
type Steps struct {
	// Noticed is when a source first heard of this commit; zero if none did.
	Noticed time.Time
	// Looked is when the look at the table began, Compared when its rows had been compared, Encoded when the records were made, Staged when their
	// files lay in the metadata table, Visible when the state object named them, after the commit point.
	Looked, Compared, Encoded, Staged, Visible time.Time
	// Groups are the file groups that this commit touched, in the order in which they were read.
	Groups []GroupStep
}

// GroupStep is how long the rows of one file group were compared.
type GroupStep struct {
	Partition, FileID string
	From, To          time.Time
}

// reported is what one commit of the metadata table covers in one index.
type reported struct {
	look  *look
	id    string
	steps Steps
	index string
	place int // of the index in the results of done
	done  []covered
}

// observe makes a committer's batches known to the observer.
func (o SyncOptions) observe(sk Committer, place mdt.Place) {
	sk.memo.report, sk.memo.folded, sk.memo.noticed, sk.memo.now = nil, nil, o.Noticed, o.Sink.Now
	if o.Observer == nil {
		return
	}
	table := cmp.Or(o.Table, place.Store.URL())
	meter, _ := place.Store.(*Metered)
	sk.memo.folded = func(took time.Duration) { o.Observer.Folded(table, took) }
	sk.memo.report = func(r reported) {
		st := sk.State()
		r.steps.Visible = time.Now()
		for _, c := range st.Commits {
			if c.ID == r.id && !c.VisibleAt.IsZero() {
				r.steps.Visible, r.steps.Staged = c.VisibleAt, c.StagedAt
			}
		}
		var frontier string
		if x := st.Indexes[r.index]; x != nil {
			frontier = x.Frontier.Completed
		}
		for _, d := range r.done {
			rec := d.record(r.place, r.index, frontier)
			rec.NoticedAt = sk.memo.noticedAt(rec.Requested)
			c := CoveredInstant{Table: table, Index: r.index, Requested: rec.Requested, Completed: rec.Completed, Action: rec.Action,
				Operation: rec.Operation, Mode: rec.Mode, Counts: rec.Counts, Commit: r.id, Frontier: frontier, Steps: r.steps}
			c.CompletedAt, _ = r.look.moment(rec.Completed)
			c.Steps.Noticed, c.Steps.Groups = rec.NoticedAt, d.groups
			if meter != nil {
				c.Read, c.Written = meter.take() // the first one has it all
			}
			o.Observer.Covered(c)
		}
	}
}

// clock is the time now, by the clock that also says when a commit is visible.
func (m *memo) clock() time.Time {
	if m.now == nil {
		return time.Now().UTC()
	}
	return m.now().UTC()
}

// noticedAt is when a source first heard of an instant; zero if none did.
func (m *memo) noticedAt(requested string) time.Time {
	if m.noticed == nil {
		return time.Time{}
	}
	return m.noticed(requested).UTC()
}

// groupSteps takes the times at which a comparison begins with file groups; nil where none are taken.
func (l *look) groupSteps(into *[]GroupStep) func(table.Group) {
	if l.clock == nil {
		return nil
	}
	return func(g table.Group) {
		for i, s := range *into {
			if s.Partition == g.Partition && s.FileID == g.FileID { // the comparison has begun anew
				*into = (*into)[:i]
				break
			}
		}
		*into = append(l.ended(*into), GroupStep{Partition: g.Partition, FileID: g.FileID, From: l.clock()})
	}
}

// ended ends the last of the steps.
func (l *look) ended(steps []GroupStep) []GroupStep {
	if n := len(steps); n > 0 {
		steps[n-1].To = l.clock()
	}
	return steps
}

// moment returns the moment that an instant text names, if the table's zone is known (design, section 5).
func (l *look) moment(text string) (time.Time, bool) {
	var offset time.Duration
	if l.table.Props.Zone != "UTC" {
		var newest timeline.Instant
		for _, i := range l.table.Timeline.Instants() {
			if i.State == timeline.Completed && !i.Archived && i.Completed > newest.Completed {
				newest = i
			}
		}
		known := false
		if offset, known = timeline.ZoneOffset(newest); !known {
			return time.Time{}, false
		}
	}
	at, err := timeline.InstantTime(text, time.UTC)
	if err != nil {
		return time.Time{}, false
	}
	return at.Add(-offset), true
}
