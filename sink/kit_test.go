package sink

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/hfile"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/timeline"
)

const (
	testSchema = `{"type":"string"}`
	idx        = "v_idx"
	groups     = 2
)

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

var tables sync.Map // fixture name → *mem.Store

// table returns a private copy of a fixture table in memory.
func table(t testing.TB, name string) *mem.Store {
	t.Helper()
	if st, ok := tables.Load(name); ok {
		return st.(*mem.Store).Clone()
	}
	st, err := mem.FromDir(name, testkit.Table(t, name))
	if err != nil {
		t.Fatal(err)
	}
	tables.Store(name, st)
	return st.Clone()
}

// config is that of a process named owner whose earlier process images on this host are dead.
func config(c *clock, owner string) Config {
	return Config{Schema: testSchema, Create: true, Now: c.Now, Owner: owner, Renew: time.Hour, Host: "host", PID: 1,
		Alive: func(int) bool { return false }}
}

func open(t testing.TB, st storage.Store, cfg Config) *Sink {
	t.Helper()
	s, err := Open(t.Context(), mdt.Inside(st), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func acquired(t testing.TB, st storage.Store, cfg Config) *Sink {
	t.Helper()
	s := open(t, st, cfg)
	if err := s.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Release(context.Background()) })
	return s
}

func record(key, payload string) Record { return Record{Key: []byte(key), Payload: []byte(payload)} }

// bootstrap builds an index: one base file a file group, the last one empty.
func bootstrap(name string) Batch {
	return Batch{
		Kind: "bootstrap",
		Build: func(id, completion string) ([]FileRecords, error) {
			out := []FileRecords{}
			for g := range groups {
				f := FileRecords{Index: name, Group: g, Base: true}
				if g < groups-1 {
					f.Records = []Record{record("a", "base a"), record("b", "base b"), record("\xe9\xff", "base latin-1")}
				}
				out = append(out, f)
			}
			return out, nil
		},
		Apply: func(st *mdt.State, id, completion string, files []mdt.DataFile) error {
			x := st.Indexes[name]
			if x == nil {
				x = &mdt.Index{Name: name, Column: "v", Element: avrox.ElementFloat, Dim: 4, Dir: mdt.PartitionDir(name)}
				st.Indexes[name] = x
			}
			x.Dropped, x.FileGroups, x.Building = false, groups, files
			x.Generations = append(x.Generations, mdt.GenState{Number: x.LastGeneration() + 1, State: mdt.GenBuilding, Built: id})
			st.Commits = append(st.Commits, mdt.Commit{ID: id, Completion: completion, Kind: "bootstrap"})
			return nil
		},
	}
}

// activate flips the generation that is being built.
func activate(name string) Batch {
	return Batch{
		Kind: "activate",
		Build: func(id, completion string) ([]FileRecords, error) {
			return []FileRecords{{Index: name, Group: 0, Records: []Record{record("manifest", "ACTIVE")}}}, nil
		},
		Apply: func(st *mdt.State, id, completion string, files []mdt.DataFile) error {
			x := st.Indexes[name]
			st.Base = append(st.Base, x.Building...)
			x.Building = nil
			last := &x.Generations[len(x.Generations)-1]
			last.State, last.Activated = mdt.GenActive, id
			st.Commits = append(st.Commits, mdt.Commit{ID: id, Completion: completion, Kind: "activate", Files: files})
			return nil
		},
	}
}

// follow covers one data instant by a log file in each file group.
func follow(name string, i timeline.Instant) Batch {
	return Batch{
		Kind:       "sync",
		NewestData: i,
		Build: func(id, completion string) ([]FileRecords, error) {
			out := []FileRecords{}
			for g := range groups {
				out = append(out, FileRecords{Index: name, Group: g, Records: []Record{record("k"+i.Requested, fmt.Sprint(g))}})
			}
			return out, nil
		},
		Apply: func(st *mdt.State, id, completion string, files []mdt.DataFile) error {
			x := st.Indexes[name]
			if x.Covered == nil {
				x.Covered = map[string]string{}
			}
			x.Covered[i.Requested] = i.Completed
			x.Frontier = mdt.Frontier{Requested: i.Requested, Completed: i.Completed}
			st.Commits = append(st.Commits, mdt.Commit{ID: id, Completion: completion, Kind: "sync", Files: files,
				Covered: []mdt.CoveredInstant{{Index: name, Requested: i.Requested, Completed: i.Completed, Action: string(i.Action)}}})
			return nil
		},
	}
}

// sight is the look that the caller of a commit has taken.
func sight(t testing.TB, s *Sink) *Seen {
	t.Helper()
	at := time.Now()
	p, tl, err := s.data.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &Seen{Props: p, Timeline: tl, At: at}
}

// writes returns the completed data writes of a table.
func writes(t testing.TB, st storage.Store) []timeline.Instant {
	t.Helper()
	_, tl, err := timeline.Open(t.Context(), st, ".hoodie")
	if err != nil {
		t.Fatal(err)
	}
	return tl.Writes()
}

// work does what is still to be done, as a process that was started anew would: build, activate, follow the last two
// instants. It stops at the first error. A goal is reached by any number of interrupted runs.
func work(ctx context.Context, s *Sink, due []timeline.Instant) error {
	if err := s.Acquire(ctx); err != nil {
		return err
	}
	for {
		b, done := next(s.State(), due)
		if done {
			return s.Release(ctx)
		}
		if b.Kind == "sync" { // who plans one has looked
			at := time.Now()
			p, tl, err := s.data.Open(ctx)
			if err != nil {
				return errors.Join(err, s.Release(ctx))
			}
			b.Seen = &Seen{Props: p, Timeline: tl, At: at}
		}
		if _, err := s.Commit(ctx, b); err != nil {
			return errors.Join(err, s.Release(ctx))
		}
	}
}

func next(st *mdt.State, due []timeline.Instant) (Batch, bool) {
	x := st.Indexes[idx]
	if x == nil || x.Dropped {
		return bootstrap(idx), false
	}
	if _, ok := x.Active(); !ok {
		return activate(idx), false
	}
	for _, i := range due {
		if _, ok := x.Covered[i.Requested]; !ok {
			return follow(idx, i), false
		}
	}
	return Batch{}, true
}

// content describes what readers see, without ids: for every live file its group and records, covered instants, frontier,
// generations.
func content(t testing.TB, st storage.Store) string {
	t.Helper()
	place := mdt.Inside(st)
	state, _, err := mdt.ReadState(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range state.Live("") {
		lines = append(lines, fmt.Sprintf("%s group %d base %t size %d: %s", f.Index, f.Group, f.Base, f.Size, recordsOf(t, place, f)))
	}
	sort.Strings(lines)
	for _, x := range state.Indexes {
		lines = append(lines, fmt.Sprintf("%s dropped %t covered %v frontier %v", x.Name, x.Dropped, x.Covered, x.Frontier))
		for _, g := range x.Generations {
			lines = append(lines, fmt.Sprintf("generation %d %s", g.Number, g.State))
		}
	}
	return strings.Join(lines, "\n")
}

// recordsOf decodes one file of ours.
func recordsOf(t testing.TB, place mdt.Place, f mdt.DataFile) string {
	t.Helper()
	ctx := t.Context()
	b, _, err := place.Store.ReadFile(ctx, place.File(f.Path))
	if err != nil {
		t.Fatal(err)
	}
	if !f.Base {
		var blocks []logfile.Block
		for block, err := range logfile.Blocks(ctx, storage.BytesSource(b)) {
			if err != nil {
				t.Fatal(err)
			}
			blocks = append(blocks, block)
		}
		if len(blocks) != 1 || blocks[0].Type != logfile.TypeHFile || blocks[0].Instant() != f.ID || blocks[0].Schema() != testSchema {
			t.Fatalf("log file %s: %d blocks, %+v", f.Path, len(blocks), blocks)
		}
		b = blocks[0].Content
	}
	r, err := hfile.Open(ctx, storage.BytesSource(b))
	if err != nil {
		t.Fatal(err)
	}
	if r.Schema() != testSchema {
		t.Fatalf("%s has schema %q", f.Path, r.Schema())
	}
	var out []string
	for c, err := range r.Scan(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		key, err := hfile.DecodeKey(c.Key)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%q=%q", key, c.Value))
	}
	return strings.Join(out, " ")
}

// checkTidy fails when a file of ours lies there that the state does not name, or something of the table changed.
func checkTidy(t testing.TB, before, after *mem.Store, what string) {
	t.Helper()
	place := mdt.Inside(after)
	state, _, err := mdt.ReadState(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{place.StatePath(): true, place.StateDir + "/probe": true}
	for _, f := range state.Live("") {
		named[place.File(f.Path)] = true
	}
	for _, r := range state.Retired {
		named[place.File(r.Path)] = true
	}
	for _, l := range state.Ledger {
		named[place.LedgerPath(l.Path)] = true
	}
	folded, err := mdt.Evidence(t.Context(), place, state, idx)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Concat(state.Commits, folded) {
		named[place.CommitPath(c.ID, c.Completion)] = true
	}
	for _, f := range state.Base {
		completion, err := timeline.AddMillis(f.ID, 1)
		if err != nil {
			t.Fatal(err)
		}
		named[place.CommitPath(f.ID, completion)] = true
	}
	if state.Intent != nil || len(state.Burned) > 0 || state.Owner != "" {
		t.Errorf("%s: not settled: intent %v, burned %v, owner %q", what, state.Intent, state.Burned, state.Owner)
	}
	was := map[string]bool{}
	for _, p := range before.Paths() {
		was[p] = true
	}
	for _, p := range after.Paths() {
		if !was[p] && !named[p] {
			t.Errorf("%s: left behind: %s", what, p)
		}
		delete(named, p)
	}
	for p := range named {
		t.Errorf("%s: named but not there: %s", what, p)
	}
	for p := range was {
		x, _ := before.Stat(t.Context(), p)
		y, err := after.Stat(t.Context(), p)
		if err != nil || x.Size != y.Size || !x.ModTime.Equal(y.ModTime) { // every write has the test clock's time
			t.Errorf("%s: %s of the table changed: %v", what, path.Base(p), err)
		}
	}
}
