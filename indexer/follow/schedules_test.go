package follow_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/indexer"
	"tidemark/indexer/follow"
	"tidemark/indexer/indexertest"
	"tidemark/indexer/source"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/testkit"
)

// Random schedules of what happens to a table that is followed: see played. In the end every commit has exactly one marker, and the
// index is that of an undisturbed run.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	schedules := 40
	if os.Getenv("TIDEMARK_TEST_LONG") != "" {
		schedules = 500
	}
	want := map[string]indexertest.Outcome{}
	names := []string{"mor_basic", "cow_basic"}
	for _, name := range names {
		l := late(t, name)
		for len(l.due) > 0 {
			l.commit(t)
		}
		if _, err := indexer.Sync(t.Context(), mdt.Inside(l.st), indexer.SyncOptions{}); err != nil {
			t.Fatal(err)
		}
		want[name] = indexertest.OutcomeOf(t, mdt.Inside(l.st))
	}
	var all played
	for seed := range schedules {
		if testkit.Thinned(seed, 10) {
			continue
		}
		name := names[seed%len(names)]
		l := late(t, name)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			indexertest.InBubble(t, func(t *testing.T) {
				s := &schedule{t: t, l: l, r: rand.New(rand.NewPCG(uint64(seed), 7))}
				s.play(want[name])
				all.add(s.played)
			})
		})
	}
	t.Logf("%+v", all)
	if all.Killed == 0 || all.Asleep == 0 || all.Paused == 0 || all.Twice == 0 || all.Lost == 0 || all.OutOfOrder == 0 || all.Moved == 0 || all.Rivals == 0 {
		t.Error("the schedules show little")
	}
}

// played counts what happened.
type played struct {
	Schedules, Commits, Daemons int
	Rivals                      int // daemons started beside another one
	Killed                      int // daemons whose store calls ended at one in the middle
	Stopped                     int
	Asleep                      int // processes that stood still, between two calls, for up to an hour
	Paused                      int // by an operator
	Hints, Twice, Lost          int
	OutOfOrder                  int // hints given before one of an earlier commit
	Wrong                       int // hints that no commit of the table gave
	Moved                       int // rebalances: who owns the table changed, both or neither of them included
}

func (p *played) add(o played) {
	p.Schedules++
	p.Commits += o.Commits
	p.Daemons += o.Daemons
	p.Rivals += o.Rivals
	p.Killed += o.Killed
	p.Stopped += o.Stopped
	p.Asleep += o.Asleep
	p.Paused += o.Paused
	p.Hints += o.Hints
	p.Twice += o.Twice
	p.Lost += o.Lost
	p.OutOfOrder += o.OutOfOrder
	p.Wrong += o.Wrong
	p.Moved += o.Moved
}

// member is a daemon under way, one of a group that shares tables out.
type member struct {
	*following
	owns atomic.Bool
	till atomic.Pointer[time.Time] // it stands still until then, or its end
	gone chan struct{}
	st   *fault.Store
	kill int // the number of the call that is its last, or 0
}

type schedule struct {
	played
	t       *testing.T
	l       *lateTable
	r       *rand.Rand
	members []*member
	hints   []source.Hint // on their way
}

// start has one more daemon follow the table.
func (s *schedule) start() {
	m := &member{gone: make(chan struct{})}
	fc := fault.Config{Decide: func(string, string) fault.Outcome {
		if till := m.till.Load(); till != nil {
			select {
			case <-time.After(time.Until(*till)):
			case <-m.gone:
				return fault.Outcome{Kill: true}
			}
		}
		return fault.Outcome{}
	}}
	if s.r.IntN(2) == 0 {
		m.kill = 1 + s.r.IntN(100)
		fc.StopAt, fc.StopAfter = m.kill, s.r.IntN(2) == 0
	}
	m.st = fault.New(s.l.st, fc)
	m.owns.Store(s.r.IntN(4) > 0)
	cfg := follow.Config{Interval: 5 * time.Second, Owns: func(string) bool { return m.owns.Load() }}
	cfg.Sink = indexertest.Dead()
	if len(s.members) > 0 { // a neighbour, not a successor
		cfg.Sink.Alive = func(int) bool { return true }
		s.Rivals++
	}
	m.following = launch(s.t, cfg, map[string]storage.Store{"/t": m.st})
	s.members = append(s.members, m)
	s.Daemons++
}

func (s *schedule) stop(m *member) {
	_ = m.stop()
	close(m.gone)
	if m.kill > 0 && m.st.Calls() >= m.kill {
		s.Killed++
	} else {
		s.Stopped++
	}
}

// commit has the writer commit, and puts its callbacks on their way.
func (s *schedule) commit() {
	i := s.l.commit(s.t)
	s.Commits++
	copies := s.r.IntN(4)
	for range copies {
		s.hints = append(s.hints, source.Hint{Table: "/t", Instant: i.Requested})
	}
	switch copies {
	case 0:
		s.Lost++
	case 2, 3:
		s.Twice++
	}
}

// hint gives all daemons one of the hints that are on their way, or a wrong one.
func (s *schedule) hint() {
	h := source.Hint{Table: "/t", Instant: "20260101000000000"}
	if len(s.hints) == 0 {
		s.Wrong++
	} else {
		at := s.r.IntN(len(s.hints))
		h = s.hints[at]
		if slices.ContainsFunc(s.hints[:at], func(o source.Hint) bool { return o.Instant < h.Instant }) {
			s.OutOfOrder++
		}
		s.hints = slices.Delete(s.hints, at, at+1)
		s.Hints++
	}
	for _, m := range s.members {
		m.Hint(h)
	}
}

// rebalance changes who owns the table. A member learns of it when it does: two may think that they own it, or none.
func (s *schedule) rebalance() {
	for _, m := range s.members {
		if owns := s.r.IntN(2) == 0; m.owns.Swap(owns) != owns {
			s.Moved++
		}
		m.Wake("/t")
	}
}

// sleep stops a process between two of its calls.
func (s *schedule) sleep() {
	if len(s.members) == 0 {
		return
	}
	till := time.Now().Add(time.Duration(s.r.IntN(3600)) * time.Second)
	s.members[s.r.IntN(len(s.members))].till.Store(&till)
	s.Asleep++
}

func (s *schedule) play(want indexertest.Outcome) {
	t, l, n := s.t, s.l, s.r.IntN
	p := mdt.Inside(l.st)
	due := slices.Clone(l.due)
	for step := 0; len(l.due) > 1 || step < 12; step++ {
		switch n(11) {
		case 0, 1:
			if len(l.due) > 1 { // one is left for the last daemon
				s.commit()
			}
		case 2, 3:
			s.hint()
		case 4:
			if len(s.members) < 2 {
				s.start()
			}
		case 5:
			if len(s.members) > 0 {
				s.stop(s.members[0])
				s.members = s.members[1:]
			}
		case 6:
			if _, err := indexer.Pause(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			s.Paused++
		case 7:
			if _, err := indexer.Resume(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		case 8:
			time.Sleep(time.Duration(n(20_000)) * time.Millisecond)
		case 9:
			s.rebalance()
		case 10:
			s.sleep()
		}
	}
	for _, m := range s.members {
		s.stop(m)
	}
	if _, err := indexer.Resume(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	cfg := follow.Config{Look: 10 * time.Hour} // nothing but polls
	cfg.Sink = indexertest.Dead()
	last := launch(t, cfg, map[string]storage.Store{"/t": l.st})
	time.Sleep(time.Duration(n(120_000)) * time.Millisecond)
	l.commit(t)
	s.Commits++
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	if v := last.view("/t"); !v.Fresh {
		t.Errorf("in the end: %+v", v)
	}
	if err := last.stop(); err != nil {
		t.Error(err)
	}
	got := coveredOf(t, l.st)
	for _, i := range due {
		if !got[i.Requested] {
			t.Errorf("commit %s has no marker", i.Requested)
		}
	}
	now := indexertest.OutcomeOf(t, p)
	if len(got) != len(due) || fmt.Sprint(now) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", now, want)
	}
}
