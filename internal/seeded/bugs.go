package seeded

import "slices"

// Finders of mistakes.
const (
	Model      = "internal/model"
	Simulation = "internal/simulation"
	// Rule is the property test of the frontier rule against its definition, for a part of it that others make up for.
	Rule = "markers"
	// Content is the test that exchanges what a commit is for something else of the same size, which the simulation never does: its tables are
	// written by what keeps Hudi's rules, and nobody forges.
	Content = "indexer"
)

// Bug is one mistake.
type Bug struct {
	Name string
	// File is changed: Old, which occurs once, becomes New.
	File, Old, New string
	// By is the package whose tests find it.
	By string
	// Sample says that the ordinary run tries it, too.
	Sample bool
}

// of says of mistakes in one file who finds them, unless they say so themselves.
func of(file, by string, list ...Bug) []Bug {
	for i := range list {
		list[i].File = file
		if list[i].By == "" {
			list[i].By = by
		}
	}
	return list
}

// has is the end of markers.Set.Has, at which one can go wrong in several ways.
const has = `	if c, ok := s.Covered[i.Requested]; ok {
		return c == i.Completed
	}
	return false`

// Bugs are the mistakes.
var Bugs = slices.Concat(
	of("markers/course.go", Model,
		Bug{Name: "frontier is the largest covered completion time",
			Old: `			by = held(w)
			break
		}
		if open != nil`,
			New: `			by = held(w)
			continue
		}
		if false && open != nil`},
		Bug{Name: "pending writes do not hold the frontier", Sample: true,
			Old: `		if Holds(p) && (`,
			New: `		if false && (`},
		Bug{Name: "an uncovered commit does not hold what was requested after it",
			Old: `		if open == nil || w.Requested < open.Requested {`,
			New: `		if false {`, By: Rule},
		Bug{Name: "plans that the frontier passed are forgotten",
			Old: `	if plan != "" && plan < f.Completed {`,
			New: `	if false {`},
		Bug{Name: "plans that the frontier passed are forgotten once completed",
			Old: `		if plan == "" || w.Requested < plan {`,
			New: `		if false {`},
		Bug{Name: "what is covered out of its order hides what was due before it",
			Old: `c.done < len(c.due) && c.Has(c.due[c.done]) {`,
			New: `c.done < len(c.due) && c.done-from < len(done) {`, By: Rule},
	),
	of("markers/markers.go", Model,
		Bug{Name: "equal completion times are merged",
			Old: has,
			New: `	for _, c := range s.Covered {
		if i.Completed == c {
			return true
		}
	}
	return false`},
		Bug{Name: "what was requested before a covered instant counts as covered",
			Old: has,
			New: `	for r := range s.Covered {
		if i.Requested <= r {
			return true
		}
	}
	return false`},
		Bug{Name: "an instant below the frontier counts as covered",
			Old: has,
			New: `	for _, c := range s.Covered {
		if i.Completed <= c {
			return true
		}
	}
	return false`},
		Bug{Name: "the archive may pass the frontier", Sample: true,
			Old: `	return f.Completed != "" && f.Completed >= earliest &&`,
			New: `	return f.Completed != "" || f.Completed >= earliest &&`},
		Bug{Name: "nothing active means nothing missed",
			Old: `		earliest = upto + "0"`,
			New: `		return true`},
		Bug{Name: "a missing instant is taken for archived once anything is",
			Old: `		completed, there := archived[requested]
`,
			New: `		completed, there := archived[requested]
		if len(archived) > 0 {
			return true
		}
`},
	),
	of("markers/decide.go", Model,
		Bug{Name: "vanished instants are not looked for",
			Old: `func (l Look) Undone(c Claim) []string { return vanished(c.Set, l.missing(c.Set), l.Archived) }`,
			New: `func (l Look) Undone(c Claim) []string { return nil }`},
		Bug{Name: "the set is pruned early", Sample: true,
			Old: `	return slices.DeleteFunc(l.missing(c.Set), func(requested string) bool {
		completed, ok`,
			New: `	return slices.DeleteFunc(Missing(c.Set, nil), func(requested string) bool {
		if c.Set.completed(requested) <= c.Frontier.Completed {
			return false
		}
		completed, ok`},
		Bug{Name: "the look before the commit point does not mind the frontier",
			Old: `	if ok, by := Valid(after.Frontier.Completed,`,
			New: `	if ok, by := Valid("",`},
		Bug{Name: "an answer is fresh although commits are due",
			Old: `!d.Behind && len(d.Unhandled) == 0 && len(d.Due) == 0`,
			New: `!d.Behind && len(d.Unhandled) == 0`},
		Bug{Name: "an answer is fresh although instants have vanished",
			Old: `	return len(d.Undone) == 0 && !d.Behind`,
			New: `	return !d.Behind`},
		Bug{Name: "a reconcile keeps claiming what is undone",
			Old: `			if !slices.Contains(undone, requested) {`,
			New: `			if true || !slices.Contains(undone, requested) {`},
		Bug{Name: "the frontier of a batch is that of all that is due",
			Old: `	return Claim{Set: course.set, Frontier: course.Frontier()}`,
			New: `	all := l.Course(c)
	all.Cover(l.Writes)
	return Claim{Set: course.set, Frontier: all.Frontier()}`},
	),
	of("markers/decide.go", Simulation,
		Bug{Name: "restores and rollbacks are ignored",
			Old: `	for _, i := range l.Undoings {
		// A derived`,
			New: `	for _, i := range l.Undoings[:0] {
		// A derived`},
	),
	of("markers/markers.go", Simulation,
		Bug{Name: "markers by requested time",
			Old: `		by[i.Completed] = append(by[i.Completed], i.Requested)
	}
	for requested`,
			New: `		by[i.Requested] = append(by[i.Requested], i.Requested)
	}
	for requested`},
		Bug{Name: "a marker names only the newest of its instants",
			Old: `			by[completed] = append(by[completed], requested)`,
			New: `			_ = requested`},
	),
	of("coverage/judge.go", Simulation,
		Bug{Name: "the archive is not asked",
			Old: `	l.Upto = upto
`,
			New: `	upto = ""
	l.Upto = upto
`},
	),
	of("sink/commit.go", Simulation,
		Bug{Name: "the commit file comes before the files",
			Old: `	if err := s.createFiles(ctx, files); err != nil { // step 4`,
			New: `	if err := errors.Join(s.createCommit(ctx, in), s.createFiles(ctx, files)); err != nil { // step 4`},
		Bug{Name: "a commit is made without its decision",
			Old: `		st.Intent.State = mdt.Committing
`,
			New: ``},
		Bug{Name: "a commit is not looked at again before its decision",
			Old: `	l, err := s.recheck(ctx, in, compare, recheck) // step 5
`,
			New: `	l, err := s.recheck(ctx, in, compare, recheck) // step 5
	if err != nil {
		l, err = s.look(ctx, nil)
	}
`},
	),
	of("sink/cas.go", Simulation,
		Bug{Name: "the state is replaced without its tag",
			Old: `	info, err := s.guard.Replace(ctx, s.place.StatePath(), b, tag)
`,
			New: `	info, err := s.guard.Replace(ctx, s.place.StatePath(), b, tag)
	if _, now, e := s.guard.ReadFile(ctx, s.place.StatePath()); e == nil && err != nil {
		info, err = s.guard.Replace(ctx, s.place.StatePath(), b, now.Tag)
	}
`},
		Bug{Name: "a lost lease is not noticed",
			Old: `		if st == nil || st.Epoch != epoch || st.Owner != s.cfg.Owner {`,
			New: `		if st == nil || epoch < 0 {`},
	),
	of("sink/recover.go", Simulation,
		Bug{Name: "what was staged is shown after a kill",
			Old: `	if st.Intent.State == mdt.Staging {
		return s.burn(ctx, st.Intent)
	}`,
			New: `	if st.Intent.State == mdt.Staging {
		in := st.Intent
		if _, _, err := s.swapOwned(ctx, mdt.Staging, in.ID, func(st *mdt.State) error { st.Intent.State = mdt.Committing; return nil }); err != nil {
			return err
		}
		return s.show(ctx, in)
	}`},
		Bug{Name: "a burned id is used again",
			Old: `		st.LastTime = max(st.LastTime, st.Intent.Completion)
		st.Intent = nil
		return nil`,
			New: `		st.LastTime = min(st.LastTime, st.NewestSeen)
		st.Allocated = 0
		st.Intent = nil
		return nil`},
	),
	of("sink/sweep.go", Simulation,
		Bug{Name: "the sweep takes files that are in use",
			Old: `id <= st.LastTime && !named[dir+"/"+path.Base(i.Path)]`,
			New: `id <= st.LastTime && (!named[dir+"/"+path.Base(i.Path)] || len(named) > 4)`},
		Bug{Name: "retired files go at once",
			Old: `		if now.After(r.DeleteAfter) {`,
			New: `		if true || now.After(r.DeleteAfter) {`},
	),
	of("sink/lease.go", Simulation,
		Bug{Name: "the lease is ignored",
			Old: `	if st.Owner == "" || st.Owner == s.cfg.Owner || s.cfg.Now().After(st.ValidUntil) {`,
			New: `	if true {`},
	),
	of("sink/update.go", Simulation,
		Bug{Name: "operators and an owner that lost its lease are the same",
			Old: `epoch != 0 && (!held ||`,
			New: `epoch != 0 && false && (!held ||`},
	),
	of("sink/fold.go", Simulation,
		Bug{Name: "a fold keeps the first log only",
			Old: `				g.logs = append(g.logs, f)
`,
			New: `				if len(g.logs) == 0 {
					g.logs = append(g.logs, f)
				}
`},
	),
	of("internal/hudi/mdt/seen.go", Content,
		Bug{Name: "digests are those of the evidence in the state, which a fold takes away",
			Old: `		if s.Digest == "" {`,
			New: `		if true {`},
	),
	of("indexer/batch.go", Simulation,
		Bug{Name: "degraded groups are forgotten",
			Old: `		st.Degraded = append(st.Degraded, mdt.DegradedGroup{`,
			New: `		_ = append(st.Degraded, mdt.DegradedGroup{`},
		Bug{Name: "all that is due is covered, whatever the batch held",
			Old: `				x.Covered[d.instant.Requested] = d.instant.Completed
`,
			New: `				x.Covered[d.instant.Requested] = d.instant.Completed
				for _, w := range c.due {
					x.Covered[w.Requested] = w.Completed
				}
`},
	),
)
