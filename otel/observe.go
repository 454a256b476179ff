package otel

import (
	"time"

	"tidemark/coverage"
	"tidemark/indexer"
	"tidemark/indexer/follow"
	"tidemark/search"
)

var (
	_ follow.Observer = (*Telemetry)(nil)
	_ search.Observer = (*Telemetry)(nil)
)

// Noticed remembers the writer's trace, for when the commit is covered.
func (t *Telemetry) Noticed(table, instant, trace string, _ time.Time) {
	t.traces.notice(table, instant, trace)
}

// Covered counts what a commit was and makes its trace.
func (t *Telemetry) Covered(c indexer.CoveredInstant) {
	s := t.series
	for class, n := range c.Counts {
		s.add(rowsTotal, float64(n), c.Table, c.Index, class)
	}
	for kind, n := range c.Read {
		s.add(readBytes, float64(n), c.Table, c.Index, kind)
	}
	for kind, n := range c.Written {
		s.add(writtenBytes, float64(n), c.Table, c.Index, kind)
	}
	if lag, known := c.Lag(); known {
		s.record(coverageSeconds, seconds, max(lag, 0).Seconds(), c.Table, c.Index)
	}
	t.mu.Lock()
	key := [2]string{c.Table, c.Index}
	another := t.commits[key] != c.Commit
	t.commits[key] = c.Commit
	t.mu.Unlock()
	if another {
		s.add(mdtCommits, 1, c.Table, c.Index)
	}
	t.traces.covered(c)
}

// State sets the gauges of a table's indexes. Those of an index that is not among them any more disappear; with none at all, the table's.
func (t *Telemetry) State(table string, all []coverage.IndexStatus) {
	if len(all) == 0 {
		t.Forget(table)
		return
	}
	t.mu.Lock()
	old := t.indexes[table]
	now := map[string]bool{}
	for _, st := range all {
		now[indexName(st)] = true
	}
	t.indexes[table] = now
	t.mu.Unlock()
	for name := range old {
		if !now[name] {
			t.series.drop("", table, name)
		}
	}
	for _, st := range all {
		t.state(table, indexName(st), st)
	}
}

// indexName is "" for the state of a table without an index.
func indexName(st coverage.IndexStatus) string {
	if st.Index == nil {
		return ""
	}
	return *st.Index
}

func (t *Telemetry) state(table, index string, st coverage.IndexStatus) {
	s := t.series
	for _, state_ := range States {
		s.set(state, one(st.State == state_), table, index, string(state_))
	}
	set := func(metric string, known bool, value func() float64, labels ...string) {
		labels = append([]string{table, index}, labels...)
		if known {
			s.set(metric, value(), labels...)
		} else {
			s.drop(metric, labels...)
		}
	}
	owes := st.Owes() // what an operator has skipped rings no bell
	set(lagInstants, owes.LagInstants != nil, func() float64 { return float64(*owes.LagInstants) })
	set(lagSeconds, owes.LagSeconds != nil, func() float64 { return *owes.LagSeconds })
	set(frontierSeconds, !st.FrontierAt.IsZero(), func() float64 { return float64(st.FrontierAt.UnixMilli()) / 1e3 })
	set(horizonInstants, owes.Horizon.Cleaner != nil, func() float64 { return float64(*owes.Horizon.Cleaner) }, "cleaner")
	set(horizonInstants, owes.Horizon.Archiver != nil, func() float64 { return float64(*owes.Horizon.Archiver) }, "archiver")
	switch {
	case owes.OldestUncovered != nil && *owes.OldestUncovered > 0:
		s.age(oldestUncovered, *owes.OldestUncovered, table, index)
	case owes.OldestUncovered != nil || owes.LagInstants != nil && *owes.LagInstants == 0:
		s.set(oldestUncovered, 0, table, index)
	default:
		s.drop(oldestUncovered, table, index)
	}
	gaps, waiting := map[string]int{}, 0
	for _, g := range st.Gaps {
		gaps[g.Reason]++
		if g.Reason == coverage.GapQuarantined && g.Skipped == "" {
			waiting++
		}
	}
	for _, reason := range coverage.GapReasons {
		s.set(gapInstants, float64(gaps[reason]), table, index, reason)
	}
	s.set(quarantined, float64(waiting), table, index)
	s.set(skipped, float64(st.Skipped), table, index)
}

// Pass counts passes.
func (t *Telemetry) Pass(table string, err error, _ time.Duration) {
	if err != nil {
		t.series.add(passes, 1, table, "failed")
		return
	}
	t.series.add(passes, 1, table, "ok")
	t.series.set(lastSuccess, float64(t.series.now().UnixMilli())/1e3, table)
}

// Folded says that a fold of the logs of a table's indexes took so long.
func (t *Telemetry) Folded(table string, took time.Duration) {
	t.series.record(foldSeconds, seconds, took.Seconds(), table)
}

// Searched counts what a search did.
func (t *Telemetry) Searched(x search.Searched) {
	s := t.series
	if x.Err != nil {
		s.add(searchQueries, float64(x.Queries), x.Table, x.Index, "failed")
		return
	}
	s.record(searchSeconds, blinks, x.Took.Seconds(), x.Table, x.Index, string(x.Mode))
	s.add(searchQueries, float64(x.Queries-x.Incomplete), x.Table, x.Index, "complete")
	s.add(searchQueries, float64(x.Incomplete), x.Table, x.Index, "incomplete")
	s.add(searchCandidates, float64(x.Stats.Candidates-x.Stats.Moved-x.Stats.Dead), x.Table, x.Index, "in_place")
	s.add(searchCandidates, float64(x.Stats.Moved), x.Table, x.Index, "moved")
	s.add(searchCandidates, float64(x.Stats.Dead), x.Table, x.Index, "dead")
	s.add(searchLogResident, float64(x.Stats.LogResidentFinalists), x.Table, x.Index)
	s.add(searchKeyMismatch, float64(x.Stats.FetchKeyMismatch), x.Table, x.Index)
}

// SearchCache has the state of the searches' cache asked for whenever metrics are collected.
func (t *Telemetry) SearchCache(c *search.Cache) {
	t.series.ask(func() {
		for kind, st := range c.Stats() {
			t.series.set(searchCacheBytes, float64(st.Bytes), kind)
			t.series.set(searchCache, float64(st.Hits), kind, "hit")
			t.series.set(searchCache, float64(st.Misses), kind, "miss")
			t.series.set(searchCache, float64(st.Evicted), kind, "evicted")
		}
	})
}

// Forget removes everything about a table that is followed no more.
func (t *Telemetry) Forget(table string) {
	t.mu.Lock()
	for index := range t.indexes[table] {
		delete(t.commits, [2]string{table, index})
	}
	delete(t.indexes, table)
	t.mu.Unlock()
	t.series.dropTable(table)
	t.traces.forget(table)
}

// SourceState is what is known of a source of hints.
type SourceState struct {
	Connected bool
	// Messages are counted by what became of them, under the results that docs/metrics.md lists.
	Messages map[string]int64
}

// Source has a source's state asked for whenever metrics are collected.
func (t *Telemetry) Source(name string, state func() SourceState) {
	t.series.ask(func() {
		st := state()
		t.series.set(sourceUp, one(st.Connected), name)
		for result, n := range st.Messages {
			t.series.set(sourceHints, float64(n), name, result)
		}
	})
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
