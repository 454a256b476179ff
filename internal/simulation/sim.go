package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/internal/hudi/hudimodel"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/sink"
)

// sim is one run.
type sim struct {
	t         *testing.T
	profile   profile
	w         *hudimodel.World
	store     *mem.Store
	hudi      *process
	tidemarks []*process
	load      *workload

	steps int
	trace []string
	fault string // the first violation
	seen  int64  // version of the store when the invariants were checked last
	state int64  // revision of the state object when the postings were
	stats Stats
	// reconcile says that status asked for it.
	reconcile bool
	before    map[string]bool   // what was claimed last, to see that nothing is forgotten
	ids       map[string]string // commit file by id
	aborted   map[string]bool   // ids whose commit was taken back
	decided   map[string]bool   // ids whose commit was COMMITTING
	unheard   bool              // a commit that no hint told of yet
	begun     bool              // the rivals have their clocks
}

// profile is what a run is about. The zero profile is two Tidemarks and everything that can happen.
type profile struct {
	// rivals are how many Tidemarks fight for the lease; 0 is none, and every kind of event.
	rivals int
	// blind makes the store replace the state object whatever its tag: a planted mistake.
	blind bool
}

func (s *sim) fail(format string, args ...any) {
	if s.fault == "" {
		s.fault = fmt.Sprintf(format, args...)
	}
}

func (s *sim) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

// Run plays a tape in a bubble of its own time and returns what went wrong, "" if nothing did, with the run as a text.
func Run(t *testing.T, tape Tape, what profile) (fault, trace string, stats Stats) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, tape, what)
		for _, e := range tape {
			if s.fault != "" {
				break
			}
			if what.rivals > 0 {
				s.rival(e)
			} else {
				s.event(e)
			}
		}
		if s.fault == "" {
			s.settle()
		}
		s.stop()
		s.stats.Seeds, s.stats.Steps = 1, s.steps
		fault, trace, stats = s.fault, strings.Join(s.trace, "\n"), s.stats
		if fault != "" {
			trace += "\n\n" + s.w.Script()
		}
	})
	return fault, trace, stats
}

// newSim makes a table with an index. The first event of the tape chooses its shape.
func newSim(t *testing.T, tape Tape, what profile) *sim {
	s := &sim{t: t, profile: what, before: map[string]bool{}, ids: map[string]string{}, aborted: map[string]bool{}, decided: map[string]bool{},
		stats: Stats{Kinds: map[string]int{}}}
	var shape Event
	if len(tape) > 0 {
		shape = tape[0]
	}
	cfg := hudimodel.Config{MoR: shape[0]%2 == 1, Version: 9 - int(shape[1]%2)}
	s.w = hudimodel.New(t, cfg)
	s.store = s.w.Store
	start := time.Now()
	s.w.Now = func() time.Time { return time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC).Add(time.Since(start)) }
	s.store.SetClock(s.w.Now)
	s.hudi = &process{name: "hudi", s: s}
	for n := range max(2, what.rivals) {
		s.tidemarks = append(s.tidemarks, &process{name: string(rune('A' + n)), s: s})
	}
	s.load = newWorkload(s.w)
	s.load.run(Event{1, 0, 255})
	s.index(cfg)
	s.store.Remember(200)
	s.w.Step = func(op, path string) { s.hudi.ask(op, path) }
	s.check()
	return s
}

// Kinds of events.
const (
	evWrite    = iota // the writer does one operation
	evSync            // a Tidemark syncs
	evWriteBit        // the writer goes on for some file changes
	evSyncBit         // a Tidemark goes on for some calls
	evKill            // and is then killed
	evFail            // and then a call fails
	evStale           // and listings are late
	evWait            // time passes
	evPause           // a Tidemark is paused for longer than its lease
	evClock           // a Tidemark's clock is set wrong
	evReconcile
	evRead  // a reader looks
	evTwice // a hint that comes twice
	evSlow  // a call takes long, longer than the lease at most
	evFold  // logs are folded into base files
	events
)

// event plays one event.
func (s *sim) event(e Event) {
	p := s.tidemarks[int(e[1])%len(s.tidemarks)]
	n := int(e[2])
	switch e[0] % events {
	case evWrite:
		s.begin(e)
		s.advance(s.hudi, 1<<20, false)
	case evSync:
		s.hint(p, 0)
		s.advance(p, 1<<20, false)
	case evWriteBit:
		s.begin(e)
		s.advance(s.hudi, 1+n%12, false)
	case evSyncBit:
		s.hint(p, n%2)
		s.advance(p, 1+n, false)
	case evKill:
		s.hint(p, 0)
		s.advance(p, n, false)
		s.kill(p, n%2 == 1)
	case evFail:
		s.hint(p, 0)
		s.advance(p, n, false)
		s.failCall(p, n%2 == 1)
	case evStale:
		s.hint(p, 0)
		p.stale = 1 + n%16
		s.count(kindStale)
		s.advance(p, 1+n, false)
		p.stale = 0
	case evWait:
		d := []time.Duration{time.Second, 15 * time.Second, 45 * time.Second, time.Hour}[n%4]
		s.note("%s pass", d)
		s.sleep(d)
	case evPause:
		s.hint(p, 0)
		s.advance(p, n, false)
		s.note("%s is paused for 40 s", p.name)
		if p.busy() {
			s.count(kindPause)
		}
		s.sleep(40 * time.Second)
	case evClock:
		s.count(kindClock)
		p.clock = time.Duration(n-128) * time.Hour / 128
		s.note("the clock of %s is off by %s", p.name, p.clock.Round(time.Second))
	case evReconcile:
		if !p.busy() {
			s.note("%s reconciles", p.name)
			p.start(reconcileOnce)
		}
		s.advance(p, 1<<20, false)
	case evFold:
		s.fold(p)
		s.advance(p, 20+n, false)
	case evRead:
		s.seen = 0
		s.check()
	case evTwice:
		if !p.busy() {
			s.count(kindDoubled)
		}
		for range 2 {
			s.hint(p, 0)
			s.advance(p, 1<<20, false)
		}
	case evSlow:
		s.hint(p, 0)
		s.advance(p, n, false)
		s.slow(p, []time.Duration{time.Second, 12 * time.Second, 40 * time.Second, 10 * time.Minute}[n%4])
	}
}

// begin starts an operation of the writer unless one is under way.
func (s *sim) begin(e Event) {
	if s.hudi.busy() {
		return
	}
	s.note("hudi: %s", s.load.name(e))
	s.hudi.mu.Lock()
	s.hudi.running = true
	s.hudi.mu.Unlock()
	before := len(s.w.Script())
	go func() {
		s.load.run(e)
		s.hudi.mu.Lock()
		if len(s.w.Script()) != before { // it could be done
			s.count(s.load.name(e))
		}
		s.hudi.running = false
		s.hudi.mu.Unlock()
	}()
}

// hint starts a sync of a Tidemark that does nothing.
func (s *sim) hint(p *process, limit int) {
	if p.busy() {
		return
	}
	s.stats.Syncs++
	s.unheard = false
	s.note("%s syncs", p.name)
	p.start(syncOnce(limit))
}

// fold starts a fold of a Tidemark that does nothing.
func (s *sim) fold(p *process) {
	if !p.busy() {
		s.note("%s folds", p.name)
		p.start(foldOnce)
	}
}

// advance lets a process make some calls, or end.
func (s *sim) advance(p *process, calls int, quiet bool) {
	idle := 0
	for made := 0; made < calls && s.fault == ""; {
		synctest.Wait()
		c := p.parked()
		switch {
		case c == nil && !p.busy():
			s.ended(p)
			return
		case c == nil: // it sleeps
			if idle++; idle > 400 {
				return
			}
			s.sleep(500 * time.Millisecond)
		default:
			idle = 0
			made++
			s.step(p, c, fault.Outcome{})
		}
	}
	synctest.Wait()
	if !p.busy() && p.parked() == nil {
		s.ended(p)
	}
}

// step lets one call happen and checks what must hold.
func (s *sim) step(p *process, c *call, o fault.Outcome) {
	s.steps++
	text := c.op + " " + c.path
	if o.Err != nil || o.Kill {
		text += fmt.Sprintf(" (%v, kill %v, after its effect %v)", o.Err, o.Kill, o.After)
	}
	if p != s.hudi && c.op != "read" && c.op != "range" && c.op != "list" && c.op != "stat" || o.Err != nil || o.Kill || p == s.hudi {
		s.note("  %s: %s", p.name, text)
	}
	if p == s.hudi {
		s.sleep(200 * time.Millisecond)
	}
	p.answer(c, o)
	synctest.Wait()
	// What readers see changes with completed instants and with the state object.
	completes := p == s.hudi && strings.HasPrefix(c.path, ".hoodie/timeline/") && strings.Contains(c.path, "_")
	if completes {
		if s.unheard {
			s.count(kindLost)
		}
		s.unheard = true
	}
	if completes || p != s.hudi && c.op == "replace" {
		s.check()
	}
}

// sleep lets time pass for everyone.
func (s *sim) sleep(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (s *sim) kill(p *process, after bool) {
	synctest.Wait()
	c := p.parked()
	if c == nil {
		return
	}
	s.stats.Kills++
	s.count(map[bool]string{false: kindKillBefore, true: kindKillAfter}[after])
	p.dead = true
	s.step(p, c, fault.Outcome{Kill: true, After: after})
	for c := p.parked(); c != nil; c = p.parked() {
		s.step(p, c, fault.Outcome{Kill: true})
	}
	s.advance(p, 1<<20, true)
}

func (s *sim) failCall(p *process, after bool) {
	synctest.Wait()
	if c := p.parked(); c != nil {
		s.stats.Failures++
		s.count(map[bool]string{false: kindFailBefore, true: kindFailAfter}[after])
		s.step(p, c, fault.Outcome{Err: fault.ErrUnknown, After: after})
	}
}

// slow makes one call take its time; the process goes on with what it does beside.
func (s *sim) slow(p *process, d time.Duration) {
	synctest.Wait()
	if c := p.parked(); c != nil {
		s.count(kindSlow)
		s.note("the store takes %s for %s %s of %s", d, c.op, c.path, p.name)
		// Two calls never end at one instant: which one came first would be chance.
		s.step(p, c, fault.Outcome{Wait: d + time.Duration(s.steps)*time.Microsecond})
	}
}

// ended judges how a piece of work ended.
func (s *sim) ended(p *process) {
	if p == s.hudi {
		return
	}
	p.mu.Lock()
	err := p.err
	p.err = nil
	p.mu.Unlock()
	if err != nil {
		s.note("%s ends: %v", p.name, err)
	}
	var held *sink.LeaseError
	switch {
	case errors.Is(err, sink.ErrLeaseLost):
		s.stats.Lost++
	case errors.As(err, &held):
		s.stats.Refused++
	}
	if !expected(err) {
		s.note("%s: unexpected", p.name)
		s.stats.Unexpected++
	}
}

// stop ends everything that still runs.
func (s *sim) stop() {
	s.w.Step = nil
	for {
		synctest.Wait()
		var c *call
		for _, p := range append([]*process{s.hudi}, s.tidemarks...) {
			if c = p.parked(); c != nil {
				p.answer(c, fault.Outcome{Kill: p != s.hudi})
				break
			}
		}
		if c != nil {
			continue
		}
		if !s.hudi.busy() && !slices.ContainsFunc(s.tidemarks, (*process).busy) {
			return
		}
		<-time.After(time.Second)
	}
}

var noFault fault.Outcome
