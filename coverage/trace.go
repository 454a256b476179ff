package coverage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Step is a moment in the life of a commit.
type Step struct {
	// Name is committed, noticed, diffed, staged or visible.
	Name string `json:"name"`
	// AtMS is when it was reached, as Unix time in milliseconds: committed by the data writer's clock, all others by Tidemark's.
	AtMS int64 `json:"at_ms"`
	// AfterMS is how long after the commit's completion that was; null where the table's zone is not known.
	AfterMS *int64 `json:"after_ms"`
	// By says who noticed: source (a hint), or look (the table was looked at without one). "" for other steps.
	By string `json:"by,omitempty"`
}

// MissingStep is a step of which nothing is stored.
type MissingStep struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// CommitTrace is the way of one data commit into one index, from what is stored.
type CommitTrace struct {
	Index string `json:"index"`
	// Instant is the commit's requested time, Completed its completion time.
	Instant   string `json:"instant"`
	Completed string `json:"completed"`
	// Covered says that the index has it. MDTInstant is our commit that did so, "" for what the index was built on.
	Covered    bool          `json:"covered"`
	MDTInstant string        `json:"mdt_instant,omitempty"`
	Steps      []Step        `json:"steps"`
	Missing    []MissingStep `json:"missing"`
}

// Trace tells how a data write, named by its requested or completion time, came into the indexes: one by one by name, or only the one named. Kinds as
// Markers; an instant that neither the table nor an index knows is storage.ErrNotFound.
func Trace(ctx context.Context, d Deps, index, instant string) ([]CommitTrace, error) {
	if err := CheckInstant(instant); err != nil {
		return nil, err
	}
	st, _, err := mdt.ReadState(ctx, d.Place)
	if err != nil {
		return nil, err
	}
	l := &look{deps: d, state: st}
	if l.props, l.tl, err = timeline.Open(ctx, d.Place.Store, table.HoodieDir); err != nil {
		return nil, err
	}
	l.setOffset()
	var out []CommitTrace
	for _, name := range l.names() {
		if index != "" && name != index {
			continue
		}
		t, err := l.trace(ctx, st.Indexes[name], instant)
		if err != nil {
			return nil, err
		}
		out = append(out, *t)
	}
	if len(out) == 0 {
		return nil, noIndex(index)
	}
	return out, nil
}

func (l *look) trace(ctx context.Context, x *mdt.Index, instant string) (*CommitTrace, error) {
	t := &CommitTrace{Index: x.Name, Steps: []Step{}, Missing: []MissingStep{}}
	commits, err := mdt.Evidence(ctx, l.deps.Place, l.state, x.Name)
	if err != nil {
		return nil, err
	}
	for _, c := range commits {
		for _, i := range c.Covered {
			if i.Index == x.Name && (i.Requested == instant || i.Completed == instant) && !l.undone(i) {
				l.traced(t, c, i)
				return t, nil
			}
		}
	}
	i, err := l.write(ctx, instant)
	if err != nil {
		return nil, err
	}
	t.Instant, t.Completed = i.Requested, i.Completed
	l.committed(t)
	why, err := l.holds(ctx, x, i)
	if err != nil {
		return nil, err
	}
	reason := "not covered yet"
	switch {
	case why == "":
		t.Covered, reason = true, "no evidence is stored: the index was built on a snapshot that holds the commit"
		if _, base := x.Baseline.Instants[i.Requested]; !base && i.Requested >= x.Baseline.Before {
			reason = "the evidence of the commit is not kept any more"
		}
	case i.Archived:
		reason = why
	}
	for _, name := range []string{"noticed", "diffed", "staged", "visible"} {
		t.Missing = append(t.Missing, MissingStep{name, reason})
	}
	return t, nil
}

// holds says why an index is not known to incorporate a completed data write, as Wait judges; "" if it does.
func (l *look) holds(ctx context.Context, x *mdt.Index, i timeline.Instant) (string, error) {
	if set := setOf(x); set.Has(i) {
		return "", nil
	}
	if !i.Archived {
		return "not covered yet", nil
	}
	return archivedUncovered(ctx, l.deps.Place.Store, l.props, l.tl, x, i)
}

// write finds a completed data write on the timeline or in the archive.
func (l *look) write(ctx context.Context, instant string) (timeline.Instant, error) {
	for _, i := range l.tl.Instants() {
		if (i.Requested == instant || i.Completed == instant) && i.Action.IsWrite() {
			if i.State != timeline.Completed {
				return i, &storage.Error{Op: "trace", Path: instant, Hint: "wait until the writer has completed it",
					Err: fmt.Errorf("the %s is %s: %w", i.Action, i.State, storage.ErrUnsupported)}
			}
			return i, nil
		}
	}
	i, ok, err := FindArchived(ctx, timeline.NewArchive(l.deps.Place.Store, table.HoodieDir, l.props), l.tl, instant)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return i, fmt.Errorf("trace %s: %w", instant, err)
	}
	if !ok || !i.Action.IsWrite() {
		return i, &storage.Error{Op: "trace", Path: instant, Err: fmt.Errorf("no commit of the table: %w", storage.ErrNotFound),
			Hint: "tidemark markers lists the commits that the index covers"}
	}
	return i, nil
}

// committed puts down the commit's completion.
func (l *look) committed(t *CommitTrace) (time.Time, bool) {
	at, known := l.moment(t.Completed)
	if !known {
		t.Missing = append(t.Missing, MissingStep{"committed", "the time zone of the table's instants is not known"})
		return at, false
	}
	zero := int64(0)
	t.Steps = append(t.Steps, Step{Name: "committed", AtMS: at.UnixMilli(), AfterMS: &zero})
	return at, true
}

// traced fills a trace from the evidence of a commit of ours.
func (l *look) traced(t *CommitTrace, c mdt.Commit, i mdt.CoveredInstant) {
	t.Instant, t.Completed, t.Covered, t.MDTInstant = i.Requested, i.Completed, true, c.ID
	from, known := l.committed(t)
	add := func(name string, at time.Time, by, why string) {
		if at.IsZero() {
			t.Missing = append(t.Missing, MissingStep{name, why})
			return
		}
		s := Step{Name: name, AtMS: at.UnixMilli(), By: by}
		if known {
			after := at.Sub(from).Milliseconds()
			s.AfterMS = &after
		}
		t.Steps = append(t.Steps, s)
	}
	noticed, by := i.NoticedAt, "source"
	if noticed.IsZero() {
		noticed, by = c.LookedAt, "look"
	}
	const old = "the commit that covered it was made by a version that did not store it, or by a reconcile"
	add("noticed", noticed, by, old)
	add("diffed", c.DiffedAt, "", old)
	add("staged", c.StagedAt, "", old)
	add("visible", c.VisibleAt, "", old)
}
