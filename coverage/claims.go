package coverage

import (
	"context"
	"slices"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/timeline"
)

// claims compares what a certificate says besides its commits: that it is well made, the newest write, the baseline and the writes in flight.
func (r *CertificateCheck) claims(ctx context.Context, d Deps, c *Certificate, e *evidence) error {
	if !c.OK {
		r.problem("it does not say ok, which every certificate does")
	}
	if c.Before != e.index.Baseline.Before {
		r.problem("it says that the baseline holds what is before %s, the index says %s", orNone(c.Before), orNone(e.index.Baseline.Before))
	}
	if c.Time.After(d.now().Add(clockSkew)) {
		r.problem("it was made at %s, which is yet to come", c.Time.Format(time.RFC3339))
	}
	r.twice(c)
	for _, p := range c.Baseline {
		if p.Marker != "" || p.MDTInstant != "" {
			r.problem("commit %s of the baseline has a marker", p.Requested)
		}
		r.baseline(p, e)
	}
	for requested, completed := range e.index.Baseline.Instants {
		if !slices.Contains(r.Covered, Times{requested, completed}) {
			r.problem("commit %s of the index's baseline is not in the certificate", requested)
		}
	}
	if f := c.Frontier; f != nil && !slices.Contains(r.Covered, Times(*f)) {
		now, err := e.prove(ctx, f.Requested, f.Completed)
		if err != nil {
			return err
		}
		if now.Metadata == "" {
			r.problem("its frontier, commit %s, completed %s, is on neither timeline", f.Requested, f.Completed)
		}
	}
	if err := r.latest(ctx, d, c, e); err != nil {
		return err
	}
	return r.inFlight(ctx, c, e)
}

// twice refuses a commit that is named more than once.
func (r *CertificateCheck) twice(c *Certificate) {
	seen := map[string]bool{}
	once := func(requested string) {
		if seen[requested] {
			r.problem("it names commit %s more than once", requested)
		}
		seen[requested] = true
	}
	for _, t := range r.Covered {
		once(t.Requested)
	}
	for _, g := range c.InFlight {
		once(g.Requested)
	}
}

// baseline refuses a commit that is called one of the baseline and is not: it has a marker, or it is active and the index does not name it.
func (r *CertificateCheck) baseline(p Proved, e *evidence) {
	if e.index.Baseline.Instants[p.Requested] == p.Completed {
		return
	}
	at, active := e.tl.CompletionOf(p.Requested)
	if active && at == p.Completed || slices.Contains(e.markers[p.Completed].requested, p.Requested) {
		r.problem("commit %s is not one of the baseline", p.Requested)
	}
}

// latest checks that what is called the newest write was that when the certificate was made, by its own clock.
func (r *CertificateCheck) latest(ctx context.Context, d Deps, c *Certificate, e *evidence) error {
	upto := e.textOf(d, c.Time)
	if c.Latest != nil {
		now, err := e.prove(ctx, c.Latest.Requested, c.Latest.Completed)
		if err != nil {
			return err
		}
		if now.Metadata == "" {
			r.problem("the newest write that it names, %s, completed %s, is on neither timeline", c.Latest.Requested, c.Latest.Completed)
		}
		for _, t := range r.Covered {
			if t.Completed > c.Latest.Completed {
				r.problem("it covers commit %s, completed %s, after the newest write that it names", t.Requested, t.Completed)
			}
		}
	} else if len(r.Covered) > 0 || c.Frontier != nil {
		r.problem("it names no newest write, and covers some")
	}
	if upto == "" {
		return nil
	}
	writes, err := e.claimed(ctx, c.Before, upto)
	if err != nil {
		return err
	}
	for _, w := range writes {
		if c.Latest == nil || w.Completed > c.Latest.Completed {
			r.problem("%s %s completed at %s, before the certificate was made, and after the newest write that it names", w.Action, w.Requested, w.Completed)
		}
	}
	return nil
}

// inFlight compares the writes that were in flight with what became of them.
func (r *CertificateCheck) inFlight(ctx context.Context, c *Certificate, e *evidence) error {
	named, latest := map[string]bool{}, ""
	if c.Latest != nil {
		latest = c.Latest.Completed
	}
	for _, g := range c.InFlight {
		named[g.Requested] = true
		if g.Completed != nil || g.Reason != "inflight" || g.Writer != "" || !g.Action.IsWrite() {
			r.problem("write %s in flight is not what prove writes", g.Requested)
			continue
		}
		known, err := r.wasPending(ctx, g, latest, e)
		if err != nil {
			return err
		}
		if !known {
			r.problem("%s %s, which it calls in flight, is neither pending, nor completed since, nor rolled back", g.Action, g.Requested)
		}
	}
	for _, i := range e.tl.Pending() {
		if i.Action.IsWrite() && i.Requested < latest && !named[i.Requested] {
			r.problem("%s %s is pending since before the newest write that it names, and is not among those in flight", i.Action, i.Requested)
		}
	}
	for _, w := range e.tl.Writes() {
		if w.Requested < latest && w.Completed > latest && !named[w.Requested] {
			r.problem("%s %s was in flight when the certificate was made, and is not among those", w.Action, w.Requested)
		}
	}
	return nil
}

// wasPending says whether a write can have been pending at a time: it is now, it completed after that, or it was undone.
func (r *CertificateCheck) wasPending(ctx context.Context, g Gap, latest string, e *evidence) (bool, error) {
	for _, i := range e.tl.Instants() {
		if i.Requested != g.Requested || !i.Action.IsWrite() {
			continue
		}
		if i.State == timeline.Completed {
			return i.Completed > latest && i.Action == g.Action.Completes(), nil
		}
		return i.Action == g.Action, nil
	}
	for _, a := range []timeline.Action{timeline.Rollback, timeline.Restore} {
		for _, i := range e.tl.CompletedOf(a) {
			undone, err := Undone(ctx, e.store, e.props, i)
			if err != nil {
				return false, err
			}
			if slices.Contains(undone, g.Requested) {
				return true, nil
			}
		}
	}
	inst, ok, err := e.archive.Find(ctx, g.Requested)
	if err != nil || ok && inst.Requested == g.Requested {
		return err == nil && inst.Action.IsWrite() && inst.Completed > latest, err
	}
	return g.Requested < e.tl.Earliest(), nil // its rollback may be archived, too
}

// westmost is the zone whose clocks show the earliest time.
const westmost = -12 * time.Hour

// textOf returns the instant text of a moment. In a table whose zone is not known it is that of the westmost zone: what completed before
// that was there in any zone.
func (e *evidence) textOf(d Deps, at time.Time) string {
	l := &look{deps: d, state: &mdt.State{}, props: e.props, tl: e.tl}
	l.setOffset()
	offset := westmost
	if l.offset != nil {
		offset = *l.offset
	}
	if at.IsZero() {
		return ""
	}
	at = at.UTC().Add(offset)
	return at.Format("20060102150405") + at.Format(".000")[1:]
}
