package coverage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// maxDueRead bounds how many due commits are decoded to find one that cannot be: as many as one batch holds.
const maxDueRead = 64

// index judges one index. An error means that the table could not be read now.
func (l *look) index(ctx context.Context, x *mdt.Index) (IndexStatus, error) {
	s := l.blank(x)
	if found := l.standing().unsupported(); found != nil {
		s.set(found.state, found.reason, found.next)
		return s, nil
	}
	v, err := judge(ctx, l.deps.Place.Store, l.props, l.tl, l.state, x)
	if err != nil {
		s.set(StateStalled, err.Error(), storage.Hint(err))
		return s, nil
	}
	if v.Behind && len(v.Vanished) == 0 {
		if err := l.reachBack(ctx, x, &v); err != nil {
			s.set(StateStalled, err.Error(), storage.Hint(err))
			return s, nil
		}
	}
	l.measure(&s, x, v)
	if why, err := Astray(ctx, timeline.NewArchive(l.deps.Place.Store, table.HoodieDir, l.props), l.tl, x); err == nil && why != "" {
		s.Frontier, s.FrontierAt = nil, time.Time{} // it says nothing of the table, whatever else is wrong
	}
	if s.Horizon, err = l.horizon(ctx, v); err != nil {
		if ctx.Err() != nil {
			return IndexStatus{}, ctx.Err()
		}
		s.Horizon = Horizon{} // what cannot be read is not known; the steps below say what is wrong
	}
	if owed, n := l.owed(v); n > 0 {
		s.Skipped, s.Owed = n, &Owed{}
		s.Owed.LagInstants, s.Owed.LagSeconds, s.Owed.OldestUncovered = l.lag(owed)
		if s.Owed.Horizon, err = l.horizon(ctx, owed); err != nil {
			s.Owed.Horizon = Horizon{} // as above
		}
	}
	for _, step := range []func(context.Context, *IndexStatus, *mdt.Index, Verdict) (bool, error){
		l.absent, l.intact, l.closed, l.lost, l.blocked, l.moving,
	} {
		done, err := step(ctx, &s, x, v)
		if ctx.Err() != nil {
			return IndexStatus{}, ctx.Err()
		}
		if err != nil {
			s.Fresh = false
			s.set(StateStalled, err.Error(), storage.Hint(err))
			return s, nil
		}
		if done {
			return s, nil
		}
	}
	return s, nil
}

// measure fills what is counted: frontier, lag, gaps.
func (l *look) measure(s *IndexStatus, x *mdt.Index, v Verdict) {
	s.Fresh = v.Fresh
	if x.Frontier.Completed != "" {
		s.Frontier = &Times{x.Frontier.Requested, x.Frontier.Completed}
		s.FrontierAt, _ = l.moment(x.Frontier.Completed)
	}
	if v.Frontier.HeldBy != nil {
		s.HeldBy = &v.Frontier.HeldBy.Requested
	}
	for _, d := range l.state.Degraded {
		if d.Index == x.Name {
			s.Degraded++
		}
	}
	s.DuplicateKeys, s.MoreDuplicates = x.Copies.Duplicates(), x.Copies != nil && x.Copies.More
	s.CoveredAhead = &v.Lag.CoveredAhead
	s.LagInstants, s.LagSeconds, s.OldestUncovered = l.lag(v)
	s.Gaps = append(s.Gaps, l.gaps(x, v)...)
}

// lag is the lag of a verdict: commits, seconds, and the age of the first one; nil for what is not known.
func (l *look) lag(v Verdict) (instants *int, lag, oldest *float64) {
	if !v.Known() {
		return nil, nil, nil
	}
	instants, lag = &v.Lag.Instants, seconds(v)
	if v.Lag.Instants == 0 {
		return instants, lag, new(float64)
	}
	if at, ok := l.moment(v.Lag.FirstUncovered.Completed); ok {
		if age := l.deps.now().Sub(at).Seconds(); age >= 0 { // a negative age is a wrong clock or zone, not an age
			oldest = &age
		}
	}
	return instants, lag, oldest
}

// seconds is the lag in seconds: both ends are texts of one zone, so no offset is needed.
func seconds(v Verdict) *float64 {
	if v.Lag.Instants == 0 {
		return new(float64)
	}
	latest, err1 := timeline.InstantTime(v.Lag.Latest.Completed, time.UTC)
	upto, err2 := timeline.InstantTime(v.Lag.Upto, time.UTC)
	if err1 != nil || err2 != nil {
		return nil
	}
	lag := max(latest.Sub(upto).Seconds(), 0)
	return &lag
}

// absent finds an index that is not there (any more), or not ours.
func (l *look) absent(ctx context.Context, s *IndexStatus, x *mdt.Index, _ Verdict) (bool, error) {
	found, err := l.standing().absent(ctx, x)
	if err != nil || found == nil {
		return false, err
	}
	s.Building = found.building
	s.set(found.state, found.reason, l.wayOut(found, x))
	return true, nil
}

// wayOut is what to do about an index that does not stand.
func (l *look) wayOut(f *fallen, x *mdt.Index) string {
	drop := l.command("index drop", "--index "+mdt.Word(x.Name)+" --yes-drop "+mdt.Word(x.Name))
	create := l.command("index create", "--column "+mdt.Word(x.Column)+" --name "+mdt.Word(x.Name))
	switch {
	case f.then != "":
		return f.next + l.command(f.then, "")
	case f.next != "":
		return f.next
	case f.building:
		return create + ", or to give it up: " + drop
	case f.state == StateHandedOver:
		return "search it with that engine; to go on here, unregister the partition there"
	case f.state == StateAbsent && f.noTable && !l.deps.Place.IsBeside():
		return writeOnce + drop + " && " + create
	case f.state == StateAbsent:
		return drop + " && " + create
	}
	return drop
}

// writeOnce comes before a command that needs a metadata table where there is none.
const writeOnce = "write to the table once with hoodie.metadata.enable=true, then: "

// closed finds an index whose column is no longer what it was built on.
func (l *look) closed(ctx context.Context, s *IndexStatus, x *mdt.Index, _ Verdict) (bool, error) {
	found, err := l.standing().closed(ctx, x)
	if err != nil || found == nil {
		return false, err
	}
	s.set(found.state, found.reason, l.wayOut(found, x))
	return true, nil
}

// intact finds a timeline that is gone, or a covered commit that is not what it was.
func (l *look) intact(ctx context.Context, s *IndexStatus, x *mdt.Index, _ Verdict) (bool, error) {
	found, err := l.standing().intact(ctx, x)
	if err != nil || found == nil {
		return false, err
	}
	s.set(found.state, found.reason, l.wayOut(found, x))
	return true, nil
}

// lost finds that what the index rests on is no longer what it was.
func (l *look) lost(ctx context.Context, s *IndexStatus, x *mdt.Index, _ Verdict) (bool, error) {
	found, err := l.standing().history(ctx, x)
	if err != nil || found == nil {
		return false, err
	}
	s.set(found.state, found.reason, l.wayOut(found, x))
	return true, nil
}

// blocked finds what an operator must decide.
func (l *look) blocked(ctx context.Context, s *IndexStatus, x *mdt.Index, v Verdict) (bool, error) {
	if len(v.Vanished) > 0 {
		s.set(StateBlocked, v.Reason, l.command("reconcile", ""))
		return true, nil
	}
	if v.Cut {
		s.set(StateBlocked, v.Reason, l.command("reconcile", ""))
		return true, nil
	}
	for _, i := range v.Unhandled {
		requested, err := undid(ctx, l.deps.Place.Store, l.props, i, setOf(x))
		if err != nil {
			return false, err
		}
		if requested != "" {
			s.set(StateBlocked, fmt.Sprintf("%s %s undid commit %s, which the index holds", i.Action, i.Requested, requested), l.command("reconcile", ""))
			return true, nil
		}
	}
	for n, i := range v.Due {
		if _, skipped := l.state.Skipped[i.Requested]; skipped {
			continue // an operator knows
		}
		if q, aside := l.state.Quarantine[i.Requested]; aside {
			s.set(StateBlocked, fmt.Sprintf("%s %s was set aside after %s%s", i.Action, i.Requested, count(q.Attempts, "attempt"), inShort(q.Reason)), l.asideNext(i.Requested))
			s.Details = q.Reason
			return true, nil
		}
		if n >= maxDueRead {
			break
		}
		if i.Archived {
			continue // the catch-up reads it
		}
		m, err := timeline.ReadCommit(ctx, l.deps.Place.Store, table.HoodieDir, l.props, i)
		if err == nil {
			s.wroteGap(i.Requested, writerOf(m))
		}
		if errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrUnsupported) {
			s.set(StateBlocked, fmt.Sprintf("completed %s %s proves nothing%s", i.Action, i.Requested, inShort(err.Error())),
				fmt.Sprintf("roll %s back, or repair its file, with Hudi's tools", i.Requested))
			s.Details = err.Error()
			for g := range s.Gaps {
				if s.Gaps[g].Requested == i.Requested && s.Gaps[g].Reason == GapPending {
					s.Gaps[g].Reason = GapFailed
				}
			}
			return true, nil
		}
		if err != nil && !gone(err) {
			return false, err
		}
	}
	return false, nil
}

// skippedOnly says whether nothing is due but what an operator has skipped.
func (l *look) skippedOnly(v Verdict) bool {
	for _, i := range v.Due {
		if _, skipped := l.state.Skipped[i.Requested]; !skipped {
			return false
		}
	}
	return len(v.Due) > 0
}

// moving fills the states of an index that works.
func (l *look) moving(ctx context.Context, s *IndexStatus, _ *mdt.Index, v Verdict) (bool, error) {
	held := v.Frontier.HeldBy
	switch {
	case l.state.Paused:
		reason := "paused by an operator"
		if v.Reason != "" {
			reason += "; " + v.Reason
		}
		s.set(StatePaused, reason, l.command("resume", ""))
	case v.Reason != "" && l.skippedOnly(v):
		s.set(StateCatchingUp, "nothing is due but "+l.skips(v), "") // what an operator decided is not proposed to be undone
	case v.Reason != "" && s.Skipped > 0:
		owed, _ := l.owed(v)
		s.set(StateCatchingUp, fmt.Sprintf("%s not covered, the first is %s %s; beside them %s", count(len(owed.Due), "commit"), owed.Due[0].Action,
			owed.Due[0].Requested, l.skips(v)), l.command("sync", ""))
	case v.Reason != "":
		s.set(StateCatchingUp, v.Reason, l.command("sync", ""))
	case s.Degraded > 0:
		s.set(StateDegraded, fmt.Sprintf("dead rows of %s are unknown: their earlier slices were gone when a commit was compared. Searches drop such rows", count(s.Degraded, "file group")),
			l.command("reconcile", ""))
	case held != nil && held.State != timeline.Completed:
		reason, next, err := l.held(ctx, *held)
		if err != nil {
			return false, err
		}
		s.set(StateWaiting, reason, next)
	default:
		s.set(StateFresh, "", "")
	}
	return true, nil
}

// held describes the pending write that holds the frontier: age, signs of life, and what to do.
func (l *look) held(ctx context.Context, i timeline.Instant) (reason, next string, err error) {
	reason = fmt.Sprintf("the frontier waits for %s %s, which is %s", i.Action, i.Requested, i.State)
	age := time.Duration(-1)
	if at, ok := l.moment(i.Requested); ok && l.deps.now().After(at) {
		age = l.deps.now().Sub(at)
		reason += " since " + short(age)
	}
	info, err := l.deps.Place.Store.Stat(ctx, table.HoodieDir+"/.heartbeat/"+i.Requested)
	switch {
	case err == nil:
		// A copied or stamped file says nothing about the writer: it cannot have beaten before the write began, nor later
		// than now.
		if beat := l.deps.now().Sub(info.ModTime); age >= 0 && beat <= age+clockSkew && beat >= -clockSkew {
			reason += ", last heartbeat " + short(beat) + " ago"
		}
	case gone(err):
		reason += ", without a heartbeat file"
	case err != nil:
		return "", "", err
	}
	next = l.command("status", "")
	if age > staleInflight {
		next = fmt.Sprintf("if its writer is dead: hudi-cli 'commit rollback --commit %s', or let the next writer roll it back", i.Requested)
	}
	return reason, next, nil
}

// clockSkew is how far two clocks, or the derived offset of the table's zone, may be apart.
const clockSkew = 15 * time.Minute

// staleInflight is when a pending write looks like one that a dead writer left: Hudi's own heartbeats expire after minutes,
// and Flink may keep an instant open for as long as its job is idle.
const staleInflight = time.Hour

// short prints a duration in its largest whole unit.
func short(d time.Duration) string {
	switch d = max(d, 0); {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d s", int(math.Round(d.Seconds())))
}

// command is a tidemark command on this table.
func (l *look) command(name, rest string) string {
	text := "tidemark " + name + " " + mdt.Named(l.deps.table(), l.deps.Sink)
	if rest != "" {
		text += " " + rest
	}
	return text
}

// unwrapReason is an error's text without the operation that met it.
func unwrapReason(err error) string {
	var e *storage.Error
	if errors.As(err, &e) && e.Err != nil {
		return strings.TrimSuffix(strings.TrimSuffix(e.Err.Error(), ": "+storage.ErrUnsupported.Error()), ": "+storage.ErrNotFound.Error())
	}
	return err.Error()
}
