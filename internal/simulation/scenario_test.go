package simulation

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"tidemark/coverage"
	"tidemark/internal/hudi/hudimodel"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
)

// scenario is one run that a test writes out: the same world as a seed's, step by step.
type scenario struct {
	*sim
	*testing.T
}

// scenarioOf runs a scenario of the concurrency table of RFC-109 section 9.2.
func scenarioOf(t *testing.T, mor bool, fn func(s *scenario)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shape := Event{0, 0, 0}
		if mor {
			shape[0] = 1
		}
		s := &scenario{sim: newSim(t, Tape{shape}, profile{}), T: t}
		s.w.Step = nil // the writer's operations are one step each, unless a scenario says otherwise
		fn(s)
		if s.sim.fault == "" {
			s.settle()
		}
		s.stop()
		if s.sim.fault != "" {
			t.Errorf("%s\n%s", s.sim.fault, s.w.Script())
		}
	})
}

// begin begins a write of some keys (bits of n).
func (s *scenario) begin(n int) *inflight {
	p := s.load.prepare(n, 0)
	if p == nil {
		s.Fatal("the buckets are held")
	}
	return p
}

// sync lets a Tidemark work to its end.
func (s *scenario) sync(name int) {
	s.hint(s.tidemarks[name], 0)
	s.advance(s.tidemarks[name], 1<<20, false)
	s.seen = 0
	s.check()
}

// upTo lets a Tidemark work until it is about to make a call.
func (s *scenario) upTo(name int, op, path string) {
	p := s.tidemarks[name]
	s.hint(p, 0)
	for range 1000 {
		synctest.Wait()
		c := p.parked()
		if c == nil {
			s.Fatalf("%s ended before it came to %s %s", p.name, op, path)
		}
		if c.op == op && (path == "" || c.path == path || len(c.path) > len(path) && c.path[len(c.path)-len(path):] == path) {
			return
		}
		s.step(p, c, noFault)
	}
	s.Fatalf("%s never came to %s %s", p.name, op, path)
}

// upToIntent lets a Tidemark work until the state has its intent.
func (s *scenario) upToIntent(name int) {
	for {
		s.upTo(name, "replace", "state.json")
		s.step(s.tidemarks[name], s.tidemarks[name].parked(), noFault)
		st, _, err := mdt.ReadState(s.Context(), mdt.Inside(s.store))
		if err != nil {
			s.Fatal(err)
		}
		if st.Intent != nil {
			return
		}
	}
}

func (s *scenario) index() *mdt.Index {
	st, _, err := mdt.ReadState(s.Context(), mdt.Inside(s.store))
	if err != nil {
		s.Fatal(err)
	}
	return st.Indexes[indexName]
}

func (s *scenario) verdict() coverage.Verdict {
	st, _, err := mdt.ReadState(s.Context(), mdt.Inside(s.store))
	if err != nil {
		s.Fatal(err)
	}
	tb, err := table.Open(s.Context(), s.store)
	if err != nil {
		s.Fatal(err)
	}
	v, err := coverage.Fresh(s.Context(), mdt.Inside(s.store), tb, st, indexName)
	if err != nil {
		s.Fatal(err)
	}
	return v
}

func (s *scenario) covers(t *hudimodel.Txn, want bool) {
	s.Helper()
	if got := s.index().Covered[t.Requested] == t.Completed; got != want {
		s.Errorf("%s covered: %v, want %v", t, got, want)
	}
}

func (s *scenario) fresh(want bool) {
	s.Helper()
	if v := s.verdict(); v.Fresh != want {
		s.Errorf("fresh: %v (%s), want %v", v.Fresh, v.Reason, want)
	}
}

// Two writers with conflict detection: each committed winner has one marker with its deltas, the loser, which is rolled back and tries again
// under a new time, has none.
func TestTwoWritersOneLoses(t *testing.T) {
	scenarioOf(t, false, func(s *scenario) {
		winner, loser := s.begin(0b000001), s.begin(0b000010)
		s.load.end(winner)
		s.sync(0)
		s.covers(winner.txn, true)
		loser.txn.Undo()
		s.sync(0)
		again := s.begin(0b000010)
		s.load.end(again)
		s.sync(0)
		s.covers(again.txn, true)
		if _, ok := s.index().Covered[loser.txn.Requested]; ok {
			s.Error("an aborted instant has a marker")
		}
		s.fresh(true)
	})
}

// A write completes while a batch is made: the batch is not taken for more than it holds, and the write is covered by the next.
func TestWriteDuringABatch(t *testing.T) {
	scenarioOf(t, false, func(s *scenario) {
		first := s.begin(0b000001)
		s.load.end(first)
		s.upTo(0, "create", ".deltacommit")
		second := s.begin(0b000010)
		s.load.end(second)
		s.fresh(false)
		s.advance(s.tidemarks[0], 1<<20, false)
		s.sync(0)
		s.covers(first.txn, true)
		s.covers(second.txn, true)
		s.fresh(true)
	})
}

// A write completes while an index is compared anew with its table (a rebuild in place): what is called fresh never misses it.
func TestWriteDuringARebuild(t *testing.T) {
	scenarioOf(t, false, func(s *scenario) {
		p := s.tidemarks[0]
		first := s.begin(0b000001)
		s.load.end(first)
		p.start(reconcileOnce)
		for range 12 {
			synctest.Wait()
			if c := p.parked(); c != nil {
				s.step(p, c, noFault)
			}
		}
		second := s.begin(0b000010)
		s.load.end(second)
		s.advance(p, 1<<20, false)
		s.seen = 0
		s.check()
		s.sync(0)
		s.covers(first.txn, true)
		s.covers(second.txn, true)
		s.fresh(true)
	})
}

// Delta commits complete out of order: the later one is covered, and the frontier waits for the earlier one; when it completes, or is rolled
// back, the frontier goes on.
func TestOutOfOrderCompletion(t *testing.T) {
	for _, aborted := range []bool{false, true} {
		t.Run(map[bool]string{false: "completed", true: "rolled back"}[aborted], func(t *testing.T) {
			scenarioOf(t, true, func(s *scenario) {
				early, late := s.begin(0b000001), s.begin(0b000010)
				before := s.index().Frontier
				s.load.end(late)
				s.sync(0)
				s.covers(late.txn, true)
				s.fresh(true)
				if f := s.index().Frontier; f != before {
					s.Errorf("the frontier went from %+v to %+v over a write that is in flight", before, f)
				}
				if aborted {
					early.txn.Undo()
				} else {
					s.load.end(early)
					s.fresh(false)
				}
				s.sync(0)
				want := late.txn.Completed
				if !aborted {
					want = early.txn.Completed
				}
				if f := s.index().Frontier; f.Completed != want {
					s.Errorf("frontier %+v, want %s", f, want)
				}
				s.fresh(true)
			})
		})
	}
}

// A completion time is taken before its file is seen, and another commit comes in between: the late one is covered, and its rows are
// those of the order in which the table has them.
func TestLateCommit(t *testing.T) {
	scenarioOf(t, true, func(s *scenario) {
		early, late := s.begin(0b000011), s.begin(0b000001)
		at := s.w.Tick()
		s.load.end(late)
		s.sync(0)
		early.txn.CompleteAt(at)
		s.fresh(false)
		s.sync(0)
		s.covers(early.txn, true)
		s.fresh(true)
	})
}

// An aware writer's commit beside one that knows nothing of the index: the missing marker shows as stale, catching up repairs it, and nothing
// is covered that was not read.
func TestUnawareWriter(t *testing.T) {
	scenarioOf(t, true, func(s *scenario) {
		aware := s.begin(0b000001)
		s.load.end(aware)
		s.sync(0)
		s.fresh(true)
		unaware := s.begin(0b000010)
		s.load.end(unaware)
		s.fresh(false)
		if v := s.verdict(); v.Lag.Instants != 1 || v.Due[0].Requested != unaware.txn.Requested {
			s.Errorf("lag %+v", v.Lag)
		}
		s.covers(unaware.txn, false)
		s.sync(0)
		s.covers(unaware.txn, true)
		s.fresh(true)
	})
}

// A clustering replaces file groups while the index is compared anew with its table: the replacement is replayed like a write, with its marker,
// and the keys that it moved have their new places.
func TestRebuildAgainstClustering(t *testing.T) {
	scenarioOf(t, false, func(s *scenario) {
		p := s.tidemarks[0]
		first := s.begin(0b111111)
		s.load.end(first)
		p.start(reconcileOnce)
		for range 20 {
			synctest.Wait()
			if c := p.parked(); c != nil {
				s.step(p, c, noFault)
			}
		}
		s.load.cluster(3)
		clustering := s.w.Completed()[len(s.w.Completed())-1]
		if clustering.Pending != "clustering" {
			s.Fatal("no clustering")
		}
		s.advance(p, 1<<20, false)
		s.sync(0)
		s.covers(clustering, true)
		s.fresh(true)
		r, err := coverage.Verify(s.Context(), coverage.Deps{Place: mdt.Inside(s.store), Now: s.w.Now}, coverage.VerifyRequest{})
		if err != nil || !r.OK || r.WrongLocator != 0 {
			s.Errorf("verify: %+v %v", r, err)
		}
	})
}

// The metadata table's own services work while an indexer commits: what they archive of ours stays covered, and they move no frontier.
func TestMetadataServicesAgainstIndexer(t *testing.T) {
	scenarioOf(t, true, func(s *scenario) {
		first := s.begin(0b000001)
		s.load.end(first)
		s.sync(0)
		before := s.index().Frontier
		s.archiveMetadata()
		if f := s.index().Frontier; f != before {
			s.Errorf("the metadata table's archiver moved the frontier to %+v", f)
		}
		s.fresh(true)
		second := s.begin(0b000010)
		s.load.end(second)
		// The commit file of a decided commit is archived before its owner shows it, and the owner dies: the next one finishes it.
		s.upTo(0, "create", ".deltacommit")
		s.step(s.tidemarks[0], s.tidemarks[0].parked(), noFault)
		synctest.Wait()
		s.kill(s.tidemarks[0], false)
		s.archiveMetadata()
		s.fresh(false)
		s.sync(1)
		s.covers(second.txn, true)
		s.fresh(true)
	})
}

// A restore takes a covered commit back: not fresh at once, refused by a sync, repaired by a reconcile.
func TestRestoreOfCovered(t *testing.T) {
	scenarioOf(t, true, func(s *scenario) {
		first := s.begin(0b000111)
		s.load.end(first)
		s.load.savepoint()
		second := s.begin(0b111000)
		s.load.end(second)
		s.sync(0)
		s.fresh(true)
		s.w.Restore(first.txn)
		s.fresh(false)
		s.sync(0)
		s.fresh(false)
		s.tidemarks[0].start(reconcileOnce)
		s.advance(s.tidemarks[0], 1<<20, false)
		if slices.Contains(keysOf(s.index().Covered), second.txn.Requested) {
			s.Error("an undone commit is still claimed")
		}
		s.fresh(true)
	})
}

func keysOf(m map[string]string) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

// A Tidemark that was paused for longer than its lease, with its commit decided, finds it lost; what its successor did stands.
func TestPausedOwner(t *testing.T) {
	scenarioOf(t, true, func(s *scenario) {
		first := s.begin(0b000001)
		s.load.end(first)
		s.upTo(0, "create", ".deltacommit")
		s.sleep(3600 * 1e9)
		s.sync(1)
		s.covers(first.txn, true)
		s.advance(s.tidemarks[0], 1<<20, false)
		s.seen = 0
		s.check()
		s.fresh(true)
	})
}

// A write completes while an index is being built: it goes to the active one only; the new one is not to be seen until it is whole, does
// not claim the write, and gets it by the next sync. A build that is killed leaves the active index as it was.
func TestWriteDuringABuild(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(map[bool]string{false: "ends", true: "killed"}[killed], func(t *testing.T) {
			scenarioOf(t, false, func(s *scenario) {
				p := s.tidemarks[0]
				p.start(buildOther)
				for {
					synctest.Wait()
					c := p.parked()
					if c == nil {
						s.Fatal("the build ended before it wrote a file")
					}
					if c.op == "create" && strings.Contains(c.path, "vector_index_other/") {
						break
					}
					s.step(p, c, noFault)
				}
				during := s.begin(0b000001)
				s.load.end(during)
				s.fresh(false)
				if killed {
					s.kill(p, true)
				} else {
					s.advance(p, 1<<20, false)
				}
				st, _, err := mdt.ReadState(s.Context(), mdt.Inside(s.store))
				if err != nil {
					s.Fatal(err)
				}
				x := st.Indexes["other"]
				if _, active := x.Active(); active == killed {
					s.Errorf("other index active: %v, killed: %v", active, killed)
				}
				if _, claimed := x.Baseline.Instants[during.txn.Requested]; claimed || x.Covered[during.txn.Requested] != "" {
					s.Error("the index being built claims a write that completed after its snapshot")
				}
				s.sync(1)
				s.covers(during.txn, true)
				s.fresh(true)
				if st, _, err = mdt.ReadState(s.Context(), mdt.Inside(s.store)); err != nil {
					s.Fatal(err)
				}
				if covered := st.Indexes["other"].Covered[during.txn.Requested] != ""; covered == killed {
					s.Errorf("other index covers the write: %v, killed: %v", covered, killed)
				}
				if killed { // a build that is over stands in the way of status only; the operator drops it
					s.drop("other")
				}
			})
		})
	}
}

// Two commits share one completion time, and the second is seen after the first was covered: one marker certifies both.
func TestEqualCompletionTimes(t *testing.T) {
	scenarioOf(t, true, func(s *scenario) {
		first, second := s.begin(0b000001), s.begin(0b000010)
		s.load.end(first)
		s.sync(0)
		second.txn.CompleteAs(first.txn)
		s.fresh(false)
		s.sync(0)
		s.covers(first.txn, true)
		s.covers(second.txn, true)
		s.fresh(true)
	})
}

// The archive passes the frontier while nobody follows: not fresh, although all that is left on the active timeline could be covered; the next
// sync goes through the archive.
func TestArchivePassesTheFrontier(t *testing.T) {
	scenarioOf(t, false, func(s *scenario) {
		var all []*inflight
		for n := range 4 {
			p := s.begin(1 << (n % 6))
			s.load.end(p)
			all = append(all, p)
		}
		if s.w.Archive(1) == 0 {
			s.Fatal("nothing was archived")
		}
		if v := s.verdict(); v.Fresh || !v.Behind {
			s.Errorf("fresh %v, behind %v", v.Fresh, v.Behind)
		}
		s.sync(0)
		s.covers(all[3].txn, true)
		s.fresh(true)
	})
}

// The same, paused right before it would show its commit: its swap of the state fails, and takes nothing of its successor's back.
func TestPausedBeforeTheSwap(t *testing.T) {
	scenarioOf(t, true, func(s *scenario) {
		first := s.begin(0b000001)
		s.load.end(first)
		s.upTo(0, "create", ".deltacommit")
		s.step(s.tidemarks[0], s.tidemarks[0].parked(), noFault)
		s.upTo(0, "replace", "state.json")
		s.sleep(3600 * 1e9)
		s.sync(1)
		second := s.begin(0b000010)
		s.load.end(second)
		s.sync(1)
		s.advance(s.tidemarks[0], 1<<20, false)
		s.seen = 0
		s.check()
		s.covers(first.txn, true)
		s.covers(second.txn, true)
		s.fresh(true)
	})
}

// Killed after it said what it would write and before it wrote it: the next owner takes that back and covers the commit itself.
func TestKilledWhileStaging(t *testing.T) {
	scenarioOf(t, true, func(s *scenario) {
		first := s.begin(0b000001)
		s.load.end(first)
		s.upToIntent(0)
		s.kill(s.tidemarks[0], false)
		s.sync(1)
		s.covers(first.txn, true)
		s.fresh(true)
	})
}

// The slice before a commit is cleaned away before anyone follows: what is there is indexed, the deleted key's posting stays, in
// a file group that is said to be degraded, until a reconcile.
func TestCleanedSlices(t *testing.T) {
	scenarioOf(t, false, func(s *scenario) {
		s.load.upsert(0b000101, 0b000100)
		done := s.w.Completed()
		if s.w.Clean(done[len(done)-1]) == 0 {
			s.Fatal("nothing was cleaned")
		}
		s.sync(0)
		s.covers(done[len(done)-1], true)
		st, _, err := mdt.ReadState(s.Context(), mdt.Inside(s.store))
		if err != nil || len(st.Degraded) == 0 {
			s.Errorf("degraded: %v %v", st.Degraded, err)
		}
	})
}

// A commit whose times were taken before others completed appears while a batch is made: the second look sees that the frontier of the batch
// would pass it.
func TestAppearsBehindTheFrontier(t *testing.T) {
	scenarioOf(t, true, func(s *scenario) {
		requested, completed := s.w.Tick(), s.w.Tick()
		first := s.begin(0b000001)
		s.load.end(first)
		s.upToIntent(0)
		hidden := s.w.BeginAt(requested, "deltacommit", "UPSERT")
		hidden.CompleteAt(completed)
		s.advance(s.tidemarks[0], 1<<20, false)
		s.sync(0)
		s.covers(first.txn, true)
		s.covers(hidden, true)
		s.fresh(true)
	})
}

// A restore to a savepoint leaves its commit alone on the active timeline, with older ones archived: their rows stay, and the index ends fresh.
func TestRestoreLeavesOneCommit(t *testing.T) {
	scenarioOf(t, false, func(s *scenario) {
		saved := s.begin(0b000001)
		s.load.end(saved)
		s.load.savepoint()
		after := s.begin(0b000010)
		s.load.end(after)
		if s.w.Archive(1) == 0 {
			s.Fatal("nothing was archived")
		}
		s.sync(0)
		s.covers(after.txn, true)
		s.load.restore(1)
		s.fresh(false)
		s.tidemarks[0].start(reconcileOnce)
		s.advance(s.tidemarks[0], 1<<20, false)
		s.fresh(true)
		s.covers(saved.txn, true)
		if _, ok := s.index().Covered[after.txn.Requested]; ok {
			s.Error("what was restored away is covered")
		}
	})
}

// The archiver leaves a clustering alone on the active timeline: the table's schema is the one that the clustering carries.
func TestOnlyAClusteringIsLeft(t *testing.T) {
	scenarioOf(t, false, func(s *scenario) {
		s.load.cluster(0)
		if s.w.Archive(1) == 0 {
			s.Fatal("nothing was archived")
		}
		s.sync(0)
		s.fresh(true)
	})
}
