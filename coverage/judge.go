package coverage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/timeline"
)

// Verdict is what an index covers of the newest snapshot, decided on sets (design, decision 9).
type Verdict struct {
	// Fresh is true only if exactly the completed data writes of the snapshot are incorporated, none has vanished, every
	// restore and rollback is dealt with, and what is archived lies at or below the frontier.
	Fresh bool
	// Lag counts the completed data writes that are not incorporated.
	Lag markers.Lag
	// Due are those writes, in completion order.
	Due []timeline.Instant
	// Frontier is the largest frontier that the timeline allows, with what holds it.
	Frontier markers.Frontier
	// Vanished are the requested times of incorporated instants that were undone.
	Vanished []string
	// Unhandled are completed restores and rollbacks that the state has not dealt with.
	Unhandled []timeline.Instant
	// Behind says that the frontier lies before the archive, so that commits may have been missed.
	Behind bool
	// Reached says that the archive reaches back to the frontier and was looked at: Due and Lag count archived commits, too, and
	// Archived are those.
	Reached  bool
	Archived []timeline.Instant
	// Cut says that the archive does not reach back to the frontier any more.
	Cut bool
	// Reason says in one clause why the index is not fresh; empty if it is.
	Reason string
}

// Known says whether Lag counts all that is not incorporated: not so when commits may have been archived unseen.
func (v Verdict) Known() bool { return !v.Behind || v.Reached }

// setOf returns what an index incorporates.
func setOf(x *mdt.Index) markers.Set {
	return markers.Set{Baseline: x.Baseline.Instants, Before: x.Baseline.Before, Covered: x.Covered}
}

// Fresh judges one index against an opened table: what Status calls not fresh is not fresh, for the same reason. st must have been
// read before t was opened: the other way round a commit covered in between would look undone. It lists the index's directory, and
// looks at the archive only where the active timeline does not reach back to the frontier.
func Fresh(ctx context.Context, place mdt.Place, t *table.Table, st *mdt.State, index string) (Verdict, error) {
	x := st.Indexes[index]
	if x == nil || x.Dropped {
		return Verdict{}, noIndex(index)
	}
	g := standing{place: place, state: st, props: t.Props, tl: t.Timeline, table: t}
	if found := g.unsupported(); found != nil { // what its timeline means is not known either
		return Verdict{Reason: found.reason, Behind: true}, nil
	}
	v, err := judge(ctx, t.Store, t.Props, t.Timeline, st, x)
	if err != nil {
		return Verdict{}, err
	}
	found, err := g.judge(ctx, x)
	if err != nil {
		return Verdict{}, err
	}
	if found != nil {
		v.Fresh, v.Reason = false, found.reason
	}
	return v, nil
}

func judge(ctx context.Context, st storage.Store, p *timeline.Properties, tl *timeline.Timeline, state *mdt.State, x *mdt.Index) (Verdict, error) {
	l := markers.LookAt(tl)
	l.Began, l.Reached = state.Archive.Earliest, state.Archive.Upto
	claim := claimOf(x)
	if err := AskArchive(ctx, timeline.NewArchive(st, table.HoodieDir, p), &l, claim); err != nil {
		return Verdict{}, fmt.Errorf("judge index %s: %w", x.Name, err)
	}
	v := decide(l, state.Restores, claim)
	if v.Fresh && x.Reconcile != "" {
		v.Fresh, v.Reason = false, "a catch-up is still to be compared with the whole table: "+x.Reconcile
	}
	return v, nil
}

// AskArchive tells a look what the archive has of the instants that a claim makes it look for. Where the active timeline is
// enough it reads nothing. The look's timeline must have been listed before.
func AskArchive(ctx context.Context, a *timeline.Archive, l *markers.Look, c markers.Claim) error {
	missing, needed := l.AskArchive(c)
	if !needed {
		return nil
	}
	upto, err := a.Upto(ctx)
	if err != nil {
		return err
	}
	l.Upto = upto
	if len(missing) == 0 || upto == "" {
		return nil
	}
	if l.Archived == nil {
		l.Archived = map[string]string{}
	}
	for i, err := range a.Instants(ctx, missing[0], missing[len(missing)-1]) {
		if err != nil {
			return err
		}
		if i.IsDataWrite() {
			l.Archived[i.Requested] = i.Completed
			if i.Derived { // the row of an old writer has no completion time of its own
				l.Archived[i.Requested] = ""
			}
		}
	}
	return nil
}

// claimOf returns what an index says about itself.
func claimOf(x *mdt.Index) markers.Claim {
	return markers.Claim{Set: setOf(x), Frontier: markers.Frontier{Requested: x.Frontier.Requested, Completed: x.Frontier.Completed, Open: x.Frontier.Open}}
}

// decide is judge over plain data.
func decide(l markers.Look, handled map[string]string, claim markers.Claim) Verdict {
	d := l.Doubt(claim, handled)
	v := Verdict{
		Fresh: d.Fresh(), Vanished: d.Undone, Behind: d.Behind, Unhandled: d.Unhandled, Due: d.Due,
		Lag:      markers.Measure(claim.Set, l.Writes, claim.Frontier.Completed),
		Frontier: markers.Compute(claim.Frontier, claim.Set, l.Writes, l.Pending),
	}
	v.Reason = v.reason(claim.Frontier, l.Earliest)
	return v
}

func (v Verdict) reason(frontier markers.Frontier, earliest string) string {
	switch {
	case len(v.Vanished) > 0:
		return fmt.Sprintf("commit %s, which the index holds, is on the timeline no longer: it was rolled back or restored away, or its file is lost (%d in all)", v.Vanished[0], len(v.Vanished))
	case v.Behind:
		return fmt.Sprintf("commits before %s were archived, and the index is only known to be complete up to %s", earliest, orNone(frontier.Completed))
	case len(v.Unhandled) > 0:
		return fmt.Sprintf("%s %s is not dealt with yet", v.Unhandled[0].Action, v.Unhandled[0].Requested)
	case len(v.Due) > 0:
		return fmt.Sprintf("%s not covered, the first is %s %s", count(len(v.Due), "commit"), v.Due[0].Action, v.Due[0].Requested)
	}
	return ""
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func orNone(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// undid returns the instant of the set that a completed restore or rollback undid; "" if it undid none.
func undid(ctx context.Context, st storage.Store, p *timeline.Properties, i timeline.Instant, set markers.Set) (string, error) {
	undone, err := Undone(ctx, st, p, i)
	if err != nil {
		return "", err
	}
	return set.Holds(undone), nil
}

func noIndex(name string) error {
	return &storage.Error{Op: "find index", Path: name, Err: storage.ErrNotFound, Hint: "see what there is: tidemark index list"}
}

// pick returns the index that is meant: the named one, or the only one.
func pick(st *mdt.State, name string) (*mdt.Index, error) {
	var names []string
	for n, x := range st.Indexes {
		if !x.Dropped {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	switch {
	case name != "" && slices.Contains(names, name):
		return st.Indexes[name], nil
	case name == "" && len(names) == 1:
		return st.Indexes[names[0]], nil
	case name == "" && len(names) > 1:
		return nil, &storage.Error{Op: "find index", Path: fmt.Sprint(names), Hint: "say which with --index NAME",
			Err: fmt.Errorf("the table has %d indexes: %w", len(names), storage.ErrRefused)}
	}
	return nil, noIndex(name)
}

// gone says whether an error means that a file is not there.
func gone(err error) bool { return errors.Is(err, storage.ErrNotFound) }
