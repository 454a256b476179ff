package seeded

// Finders of mistakes.
const (
	Model      = "internal/model"
	Simulation = "internal/simulation"
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

// Bugs are the mistakes.
var Bugs = []Bug{
	{Name: "frontier is the largest covered completion time", By: Model, File: "markers/markers.go",
		Old: "			f.HeldBy = &held\n			return f\n		}\n		if open != nil",
		New: "			f.HeldBy = &held\n			continue\n		}\n		if false && open != nil"},
	{Name: "pending writes do not hold the frontier", By: Model, Sample: true, File: "markers/markers.go",
		Old: "		if Holds(p) {\n			hold(p)", New: "		if false {\n			hold(p)"},
	{Name: "equal completion times are merged", By: Model, File: "markers/markers.go",
		Old: "	if c, ok := s.Covered[i.Requested]; ok {\n		return c == i.Completed\n	}\n	return false",
		New: "	for _, c := range s.Covered {\n		if i.Completed == c {\n			return true\n		}\n	}\n	return false"},
	{Name: "what was requested before a covered instant counts as covered", By: Model, File: "markers/markers.go",
		Old: "	if c, ok := s.Covered[i.Requested]; ok {\n		return c == i.Completed\n	}\n	return false",
		New: "	for r := range s.Covered {\n		if i.Requested <= r {\n			return true\n		}\n	}\n	return false"},
	{Name: "an instant below the frontier counts as covered", By: Model, File: "markers/markers.go",
		Old: "	if c, ok := s.Covered[i.Requested]; ok {\n		return c == i.Completed\n	}\n	return false",
		New: "	for _, c := range s.Covered {\n		if i.Completed <= c {\n			return true\n		}\n	}\n	return false"},
	{Name: "an uncovered commit does not hold what was requested after it", By: Model, File: "markers/markers.go",
		Old: "	for _, w := range ordered {\n		if !set.Has(w) {\n			hold(w)", New: "	for _, w := range ordered {\n		if !set.Has(w) && false {\n			hold(w)"},
	{Name: "plans that the frontier passed are forgotten", By: Model, File: "markers/markers.go",
		Old: "	defer func() { f.Open = passed(f.Completed, set, writes, pending) }()\n", New: ""},
	{Name: "plans that the frontier passed are forgotten once completed", By: Model, File: "markers/markers.go",
		Old: "	for _, w := range writes {\n		if !set.Has(w) {\n			mind(w)", New: "	for _, w := range writes {\n		if !set.Has(w) && false {\n			mind(w)"},
	{Name: "the archive may pass the frontier", By: Model, Sample: true, File: "markers/markers.go",
		Old: "	return f.Completed != \"\" && f.Completed >= earliest &&", New: "	return f.Completed != \"\" || f.Completed >= earliest &&"},
	{Name: "nothing active means nothing missed", By: Model, File: "markers/markers.go",
		Old: "		earliest = upto + \"0\"", New: "		return true"},
	{Name: "a missing instant is taken for archived once anything is", By: Model, File: "markers/markers.go",
		Old: "		completed, there := archived[requested]\n", New: "		completed, there := archived[requested]\n		if len(archived) > 0 {\n			return true\n		}\n"},
	{Name: "vanished instants are not looked for", By: Model, File: "markers/decide.go",
		Old: "func (l Look) Undone(c Claim) []string { return Vanished(c.Set, l.Writes, l.Archived) }",
		New: "func (l Look) Undone(c Claim) []string { return nil }"},
	{Name: "restores and rollbacks are ignored", By: Simulation, File: "markers/decide.go",
		Old: "	for _, i := range l.Undoings {\n		// A derived", New: "	for _, i := range l.Undoings[:0] {\n		// A derived"},
	{Name: "the set is pruned early", By: Model, Sample: true, File: "markers/decide.go",
		Old: "	return slices.DeleteFunc(Missing(c.Set, l.Writes), func(requested string) bool {\n		completed, ok",
		New: "	return slices.DeleteFunc(Missing(c.Set, nil), func(requested string) bool {\n		if c.Set.completed(requested) <= c.Frontier.Completed {\n			return false\n		}\n		completed, ok"},
	{Name: "the look before the commit point does not mind the frontier", By: Model, File: "markers/decide.go",
		Old: "	if ok, by := Valid(after.Frontier.Completed,", New: "	if ok, by := Valid(\"\","},
	{Name: "an answer is fresh although commits are due", By: Model, File: "markers/decide.go",
		Old: "!d.Behind && len(d.Unhandled) == 0 && len(d.Due) == 0", New: "!d.Behind && len(d.Unhandled) == 0"},
	{Name: "an answer is fresh although instants have vanished", By: Model, File: "markers/decide.go",
		Old: "	return len(d.Undone) == 0 && !d.Behind", New: "	return !d.Behind"},
	{Name: "a reconcile keeps claiming what is undone", By: Model, File: "markers/decide.go",
		Old: "			if !slices.Contains(undone, requested) {", New: "			if true || !slices.Contains(undone, requested) {"},
	{Name: "the frontier of a batch is that of all that is due", By: Model, File: "markers/decide.go",
		Old: "return Claim{Set: set, Frontier: Compute(c.Frontier, set, l.Writes, l.Pending)}\n}\n\n// Forget",
		New: "all := Set{Covered: map[string]string{}}\n	for _, w := range l.Writes {\n		all.Covered[w.Requested] = w.Completed\n	}\n	return Claim{Set: set, Frontier: Compute(c.Frontier, all, l.Writes, l.Pending)}\n}\n\n// Forget"},
	{Name: "markers by requested time", By: Simulation, File: "markers/markers.go",
		Old: "		by[i.Completed] = append(by[i.Completed], i.Requested)\n	}\n	for requested", New: "		by[i.Requested] = append(by[i.Requested], i.Requested)\n	}\n	for requested"},
	{Name: "a marker names only the newest of its instants", By: Simulation, File: "markers/markers.go",
		Old: "			by[completed] = append(by[completed], requested)", New: "			_ = requested"},
	{Name: "the archive is not asked", By: Simulation, File: "coverage/judge.go",
		Old: "	l.Upto = upto\n", New: "	upto = \"\"\n	l.Upto = upto\n"},
	{Name: "the commit file comes before the files", By: Simulation, File: "sink/commit.go",
		Old: "	if err := s.writeFiles(ctx, files); err != nil { // step 4", New: "	if err := errors.Join(s.createCommit(ctx, in), s.writeFiles(ctx, files)); err != nil { // step 4"},
	{Name: "the state is replaced without its tag", By: Simulation, File: "sink/cas.go",
		Old: "	info, err := s.guard.Replace(ctx, s.place.StatePath(), b, tag)\n",
		New: "	info, err := s.guard.Replace(ctx, s.place.StatePath(), b, tag)\n	if _, now, e := s.guard.ReadFile(ctx, s.place.StatePath()); e == nil && err != nil {\n		info, err = s.guard.Replace(ctx, s.place.StatePath(), b, now.Tag)\n	}\n"},
	{Name: "what was staged is shown after a kill", By: Simulation, File: "sink/recover.go",
		Old: "	if st.Intent.State == mdt.Staging {\n		return s.burn(ctx, st.Intent)\n	}",
		New: "	if st.Intent.State == mdt.Staging {\n		in := st.Intent\n		if _, _, err := s.swapOwned(ctx, mdt.Staging, in.ID, func(st *mdt.State) error { st.Intent.State = mdt.Committing; return nil }); err != nil {\n			return err\n		}\n		return s.show(ctx, in)\n	}"},
	{Name: "a burned id is used again", By: Simulation, File: "sink/recover.go",
		Old: "		st.LastTime = max(st.LastTime, st.Intent.Completion)\n		st.Intent = nil\n		return nil", New: "		st.LastTime = min(st.LastTime, st.NewestSeen)\n		st.Allocated = 0\n		st.Intent = nil\n		return nil"},
	{Name: "the sweep takes files that are in use", By: Simulation, File: "sink/sweep.go",
		Old: "id <= st.LastTime && !named[dir+\"/\"+path.Base(i.Path)]", New: "id <= st.LastTime && (!named[dir+\"/\"+path.Base(i.Path)] || len(named) > 4)"},
	{Name: "the lease is ignored", By: Simulation, File: "sink/lease.go",
		Old: "	if st.Owner == \"\" || st.Owner == s.cfg.Owner || s.cfg.Now().After(st.ValidUntil) {", New: "	if true {"},
	{Name: "a lost lease is not noticed", By: Simulation, File: "sink/cas.go",
		Old: "		if st == nil || st.Epoch != epoch || st.Owner != s.cfg.Owner {", New: "		if st == nil {"},
	{Name: "operators and an owner that lost its lease are the same", By: Simulation, File: "sink/update.go",
		Old: "epoch != 0 && (!held ||", New: "epoch != 0 && false && (!held ||"},
	{Name: "a commit is made without its decision", By: Simulation, File: "sink/commit.go",
		Old: "		st.Intent.State = mdt.Committing\n", New: ""},
	{Name: "a commit is not looked at again before its decision", By: Simulation, File: "sink/commit.go",
		Old: "	if err := s.recheck(ctx, in, recheck); err != nil { // step 5", New: "	if err := s.recheck(ctx, in, recheck); err != nil && false { // step 5"},
	{Name: "retired files go at once", By: Simulation, File: "sink/sweep.go",
		Old: "		if now.After(r.DeleteAfter) {", New: "		if true || now.After(r.DeleteAfter) {"},
	{Name: "a fold keeps the first log only", By: Simulation, File: "sink/fold.go",
		Old: "				g.logs = append(g.logs, f)\n", New: "				if len(g.logs) == 0 {\n					g.logs = append(g.logs, f)\n				}\n"},
	{Name: "degraded groups are forgotten", By: Simulation, File: "indexer/batch.go",
		Old: "		st.Degraded = append(st.Degraded, mdt.DegradedGroup{", New: "		_ = append(st.Degraded, mdt.DegradedGroup{"},
	{Name: "all that is due is covered, whatever the batch held", By: Simulation, File: "indexer/batch.go",
		Old: "				x.Covered[d.instant.Requested] = d.instant.Completed\n",
		New: "				x.Covered[d.instant.Requested] = d.instant.Completed\n				for _, w := range c.due {\n					x.Covered[w.Requested] = w.Completed\n				}\n"},
}
