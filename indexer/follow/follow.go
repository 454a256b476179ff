package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"tidemark/indexer"
	from "tidemark/indexer/source"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/lock"
	"tidemark/internal/storage"
	"tidemark/sink"
)

// Config is what a Follower works with. The zero value works, but for Open.
type Config struct {
	// Open opens a table, each time it was not there before. Required.
	Open func(ctx context.Context, t TableConfig) (mdt.Place, error)
	// Interval is how often a table is looked at when no hint comes: every commit is noticed within it, and that the index, its state
	// or its place in the table's properties has changed. A look without news is a listing of the timeline and one of each
	// index's partition, and four Stats. Defaults to 10 s.
	Interval time.Duration
	// Look is how often a table is looked at as a whole though none of that has changed: the archived timeline, the metadata table's.
	// Defaults to 1 minute.
	Look time.Duration
	// Passes is how many tables are worked on at once. Memory and Calls are divided by it. Defaults to 2.
	Passes int
	// Calls bounds the calls of stores under way. Defaults to 64.
	Calls int
	// Memory bounds what batches hold, of all passes together. Defaults to what one Sync takes, for each pass.
	Memory indexer.Memory
	// Attempts is after how many failures a commit that cannot be compared is set aside; negative: never. Defaults to 5.
	Attempts int
	// Stuck is after which time without an answer of its store a table gives its turn to another one. Defaults to 30 s.
	Stuck time.Duration
	// Grace is how long a pass may go on after the end was asked for before it is cancelled. Nothing is lost by that: what was not
	// committed is done again at the next start. Defaults to 4 s.
	Grace time.Duration
	// Owns says whether this process is to work on a table, by the table's own name (hoodie.table.name), where several processes share tables
	// out among them; asked before each pass. Where it says no the process stands by. Defaults to always.
	Owns func(name string) bool
	// Sink configures the sinks that are used. The zero value works.
	Sink sink.Config
	// Lock makes the lock of a table's commits. Defaults to Sink.Lock for all.
	Lock func(place mdt.Place) (lock.Locker, error)
	// Observer is told what happens. Defaults to nobody.
	Observer Observer
	// Forget is told of a table that is followed no more. Defaults to nobody.
	Forget func(table string)
	// Log is told what an operator wants to know. Defaults to nobody.
	Log *slog.Logger
}

func (c *Config) setDefaults() {
	c.Interval = positive(c.Interval, 10*time.Second)
	c.Look = max(positive(c.Look, time.Minute), c.Interval)
	c.Passes = positive(c.Passes, 2)
	c.Calls = positive(c.Calls, 64)
	if c.Attempts == 0 {
		c.Attempts = 5
	}
	if c.Owns == nil {
		c.Owns = func(string) bool { return true }
	}
	c.Stuck = positive(c.Stuck, 30*time.Second)
	c.Grace = positive(c.Grace, 4*time.Second)
	for _, bound := range []*int64{&c.Memory.Changes, &c.Memory.Window} { // without one a pass has that of one Sync
		if *bound > 0 {
			*bound = max(1, *bound/int64(c.Passes))
		}
	}
	if c.Observer == nil {
		c.Observer = Silent{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func positive[T int | int64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// TableConfig is one table that is followed. Only URL is required.
type TableConfig struct {
	// Name names the table in commands, URLs and metrics. Defaults to URL.
	Name string
	// URL is the table's base path or URL.
	URL string
	// Sink is the place beside the table where its indexes lie; "" for inside.
	Sink string
	// Aliases are other paths under which sources name the table, beside those that from.Key makes equal.
	Aliases []string
	// Indexes are the indexes that must be there: one that is missing is said. They are not created. Empty: whatever is there.
	Indexes []string
	// Interval and Attempts override those of the Config; 0 for those.
	Interval time.Duration
	Attempts int
	// Calls and Memory (bytes of changes in a batch) override the table's share of the Config's; 0 for that.
	Calls  int
	Memory int64
	// ZoneOffset is the offset of the table's instant texts from UTC where it cannot be derived; nil to derive it.
	ZoneOffset *time.Duration
}

func (t TableConfig) name() string { return cmp.Or(t.Name, t.URL) }

// keys are the names under which sources know the table.
func (t TableConfig) keys() []string {
	keys := []string{from.Key(t.URL)}
	for _, a := range t.Aliases {
		if k := from.Key(a); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

func (t TableConfig) equal(o TableConfig) bool {
	zone := t.ZoneOffset == o.ZoneOffset || t.ZoneOffset != nil && o.ZoneOffset != nil && *t.ZoneOffset == *o.ZoneOffset
	return t.Name == o.Name && t.URL == o.URL && t.Sink == o.Sink && slices.Equal(t.Aliases, o.Aliases) && slices.Equal(t.Indexes, o.Indexes) &&
		t.Interval == o.Interval && t.Attempts == o.Attempts && t.Calls == o.Calls && t.Memory == o.Memory && zone
}

// Follower keeps the indexes of many tables fresh, with one loop a table. It is safe for concurrent use.
type Follower struct {
	cfg   Config
	turns chan struct{} // a token is held for each pass; waiting is first come, first served

	mu      sync.Mutex // guards what follows
	tables  map[string]*followed
	byKey   map[string]*followed
	ctx     context.Context // of Run; nil before
	stopped bool
	ready   bool                  // every table was looked at once
	told    map[string]HintCounts // by source
	strange map[string]bool       // paths of hints of tables that are not followed, for the log; at most maxStrange
	loops   sync.WaitGroup
}

// New returns a follower of some tables, which does nothing before Run. storage.ErrRefused as SetTables.
func New(cfg Config, tables []TableConfig) (*Follower, error) {
	cfg.setDefaults()
	f := &Follower{cfg: cfg, turns: make(chan struct{}, cfg.Passes), tables: map[string]*followed{}, byKey: map[string]*followed{}}
	return f, f.SetTables(tables)
}

// CheckTables refuses a list in which a table is named twice, or two tables have one name: storage.ErrRefused, all problems together.
func CheckTables(tables []TableConfig) error {
	var problems []error
	names, keys := map[string]bool{}, map[string]string{}
	for _, t := range tables {
		if t.URL == "" {
			problems = append(problems, fmt.Errorf("table %q: its path is missing", t.Name))
			continue
		}
		if names[t.name()] && t.Name != "" {
			problems = append(problems, fmt.Errorf("table %s: two tables have this name", t.name()))
		}
		names[t.name()] = true
		for _, k := range t.keys() {
			if other, twice := keys[k]; twice {
				problems = append(problems, fmt.Errorf("table %s: it is the same as %s", t.URL, other))
			}
			keys[k] = t.URL
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &storage.Error{Op: "follow", Path: "tables", Hint: "name every table once, by one of its paths",
		Err: fmt.Errorf("%w: %w", errors.Join(problems...), storage.ErrRefused)}
}

// SetTables replaces the list of tables: loops of those that went or changed end with the batch that they are at, new ones begin. What
// stays as it is goes on undisturbed. It does not wait. A list that CheckTables refuses changes nothing.
func (f *Follower) SetTables(list []TableConfig) error {
	if err := CheckTables(list); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	next := map[string]*followed{}
	byKey := map[string]*followed{}
	for _, cfg := range list {
		t := f.tables[cfg.name()]
		if t == nil || !t.cfg.equal(cfg) {
			old := t
			t = newFollowed(f, cfg)
			if old != nil {
				t.after = old.ended // one loop at a time is at a table
			}
			f.start(t)
		}
		next[cfg.name()] = t
		for _, k := range cfg.keys() {
			byKey[k] = t
		}
	}
	for name, t := range f.tables {
		if next[name] != t {
			t.stop()
		}
		if next[name] == nil && f.cfg.Forget != nil {
			f.loops.Go(func() { // what its last batch has to tell comes first
				<-t.ended
				f.cfg.Forget(name)
			})
		}
	}
	f.tables, f.byKey = next, byKey
	return nil
}

// start starts a table's loop if Run is under way. f.mu is held.
func (f *Follower) start(t *followed) {
	if f.ctx == nil || f.stopped {
		return
	}
	ctx, cancel := context.WithCancel(f.ctx)
	t.cancel = cancel
	f.loops.Go(func() {
		defer cancel()
		t.run(ctx)
	})
}

// Run follows the tables, with hints of some sources, until ctx ends; it returns nil then, after every pass has ended. Passes get Grace to
// end their batch; tables whose store does not even answer a cancellation within twice that are left behind and named in the
// error. A source that ends is run again. A Follower runs once.
func (f *Follower) Run(ctx context.Context, sources ...from.Source) error {
	f.mu.Lock()
	f.ctx = ctx
	for _, t := range f.tables {
		f.start(t)
	}
	f.mu.Unlock()
	for _, s := range sources {
		f.loops.Go(func() { f.feed(ctx, s) })
	}
	<-ctx.Done()
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		f.loops.Wait()
		close(done)
	}()
	limit := time.NewTimer(2 * f.cfg.Grace)
	defer limit.Stop()
	select {
	case <-done:
		return nil
	case <-limit.C:
	}
	var left []string
	f.mu.Lock()
	for name, t := range f.tables {
		select {
		case <-t.ended:
		default:
			left = append(left, name)
		}
	}
	f.mu.Unlock()
	slices.Sort(left)
	return &storage.Error{Op: "stop", Path: strings.Join(left, ", "), Hint: "nothing is lost: what was not committed is done at the next start",
		Err: errors.New("its store does not answer, so the pass was left behind")}
}

// feed runs a source until ctx ends.
func (f *Follower) feed(ctx context.Context, s from.Source) {
	wait := time.Second
	for ctx.Err() == nil {
		began := time.Now()
		err := s.Run(ctx, f.Hint)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			wait = time.Second
		}
		f.cfg.Log.Warn("source ended", "source", s.Name(), "error", err, "again_in", wait)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, time.Minute)
	}
}

// Hint wakes the loop of the table that a hint names. It does not block.
func (f *Follower) Hint(h from.Hint) {
	if h.Received.IsZero() {
		h.Received = time.Now()
	}
	f.mu.Lock()
	t, stopped := f.byKey[from.Key(h.Table)], f.stopped
	f.count(h.Source, t != nil)
	f.mu.Unlock()
	switch {
	case stopped:
		endHint(h, refused("the daemon is about to stop", "the next start looks at every table"))
	case t == nil:
		f.warnUnknown(h.Table)
		endHint(h, &storage.Error{Op: "find table", Path: h.Table, Hint: "the configuration does not name this path: add the table, or the path to its aliases",
			Err: storage.ErrNotFound})
	default:
		t.hint(h)
	}
}

// HintCounts are the hints of one source.
type HintCounts struct {
	// Known named a table that is followed, Unknown did not.
	Known, Unknown int64
}

// count counts a hint. f.mu is held.
func (f *Follower) count(source string, known bool) {
	if f.told == nil {
		f.told = map[string]HintCounts{}
	}
	c := f.told[source]
	if known {
		c.Known++
	} else {
		c.Unknown++
	}
	f.told[source] = c
}

// Hints counts what a source told of.
func (f *Follower) Hints(source string) HintCounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told[source]
}

// Unknown counts the hints that named a table that is not followed, of all sources.
func (f *Follower) Unknown() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := int64(0)
	for _, c := range f.told {
		n += c.Unknown
	}
	return n
}

// maxStrange bounds the paths that are logged as not followed.
const maxStrange = 1000

// warnUnknown says once of each path, however many sources and hints name it, that it is not followed.
func (f *Follower) warnUnknown(path string) {
	f.mu.Lock()
	logged := f.strange[path] || len(f.strange) >= maxStrange
	if !logged {
		if f.strange == nil {
			f.strange = map[string]bool{}
		}
		f.strange[path] = true
	}
	f.mu.Unlock()
	if !logged {
		f.cfg.Log.Warn("callback for a table that is not followed", "path", path, "next", "add the table, or this path to its aliases, to the configuration")
	}
}

// Wake makes the loop of a table look at everything, as after an operator's decision. false: there is no such table.
func (f *Follower) Wake(name string) bool {
	t := f.table(name)
	if t != nil {
		t.wake(true)
	}
	return t != nil
}

func (f *Follower) table(name string) *followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.tables[name]; t != nil {
		return t
	}
	return f.byKey[from.Key(name)]
}

func refused(why, hint string) error {
	return &storage.Error{Op: "follow", Err: fmt.Errorf("%s: %w", why, storage.ErrRefused), Hint: hint}
}
