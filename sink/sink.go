package sink

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/internal/host"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/lock"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Config holds what is not required. The zero value works for everything but Schema.
type Config struct {
	// Schema is the Avro schema (JSON) of the payloads; it goes into every file. Required for Commit.
	Schema string
	// Create lets Acquire make the state object of a table that has none. Defaults to false: ErrNotFound.
	Create bool
	// Recheck says, at step 5 and when a successor finishes a commit, whether the state that is about to become
	// visible still fits the table's timelines: the frontier rule above all. Only its argument and the store may decide.
	// Defaults to none.
	Recheck func(ctx context.Context, now Standing) error
	// Data reads the data table's timeline, where the caller follows it, too: what one has read the other need not read. Defaults to a
	// reader of its own.
	Data *timeline.Reader
	// Lock is the lock that the table's writers share. It is held for the last steps of a commit: from looking again to the commit file. A
	// lost one makes the commit redo. Nothing of ours needs it to be safe. Defaults to none.
	Lock lock.Locker
	// LockTrouble is told when the lock could not be given back: others wait until it is over by itself. Defaults to nothing.
	LockTrouble func(err error)
	// Memory is how many bytes of a batch's files are kept in memory until they are staged; what is beyond it goes to a
	// temporary file in TempDir. Defaults to 16 MiB. The files do not depend on it.
	Memory int64
	// TempDir is where that file is made. Defaults to the system's folder for temporary files.
	TempDir string
	// Evidence is of how many covered instants the state itself keeps what they were; when it holds more, the next commit moves all
	// of it into a ledger file. Defaults to 256.
	Evidence int
	// Owner names this owner in the lease, uniquely. Defaults to host name, process id and a random part.
	Owner string
	// Lease is how long the lease is valid. Defaults to 30 s.
	Lease time.Duration
	// Renew is how often it is renewed in the background. Defaults to a third of Lease.
	Renew time.Duration
	// Retention is how long files that are no longer in use are kept for readers that started before. Defaults to 1 h,
	// the longest query plus a margin.
	Retention time.Duration
	// Now is the clock of leases, retention and visibleAt. Defaults to time.Now.
	Now func() time.Time
	// Host identifies host and boot, PID the process; an owner of the same Host whose PID is not Alive is replaced at
	// once. Default to this host and process.
	Host  string
	PID   int
	Alive func(pid int) bool
}

// Standing is what Config.Recheck judges. Nothing in it may be changed.
type Standing struct {
	// Before is the state under the intent, After what is to become the state.
	Before, After *mdt.State
	// Props and Timeline are the sink's own look at the data table, taken for this check.
	Props    *timeline.Properties
	Timeline *timeline.Timeline
}

// defaultEvidence keeps a state below 200 KiB with evidence of an instant being about 500 bytes, twice with a commit under way.
const defaultEvidence = 256

func (c *Config) setDefaults() {
	if c.Lease <= 0 {
		c.Lease = 30 * time.Second
	}
	if c.Renew <= 0 {
		c.Renew = c.Lease / 3
	}
	if c.Retention <= 0 {
		c.Retention = time.Hour
	}
	if c.Evidence <= 0 {
		c.Evidence = defaultEvidence
	}
	if c.Memory <= 0 {
		c.Memory = defaultMemory
	}
	if c.LockTrouble == nil {
		c.LockTrouble = func(error) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Host == "" {
		c.Host = host.ID()
	}
	if c.PID == 0 {
		c.PID = os.Getpid()
	}
	if c.Alive == nil {
		c.Alive = host.Alive
	}
	if c.Owner == "" {
		name, _ := os.Hostname()
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails
		c.Owner = fmt.Sprintf("%s-%d-%s", name, c.PID, hex.EncodeToString(b[:]))
	}
}

// Sink commits batches to one table. Open makes one; Acquire must succeed before Commit. It is safe for concurrent use;
// commits are made one at a time.
type Sink struct {
	place mdt.Place // its Store is the guard
	guard *storage.Guard
	cfg   Config

	data, metadata *timeline.Reader                    // of both timelines: a look without news is one listing and one Stat
	known          atomic.Pointer[timeline.Properties] // the data table's, of the last look; nil before

	blockLimit int64 // see the constant

	wrote  atomic.Pointer[written] // the newest state of this sink; nil before the first
	locked atomic.Bool             // the last swap found the state's lock held for too long

	// commitPath is the only timeline file that may be written or deleted now.
	commitPath atomic.Pointer[string]

	// turn is held for the whole of Acquire, Commit and Release: one of them at a time. It is the table lock of this
	// process and the only lock held across calls of the store.
	turn   sync.Mutex
	stop   context.CancelFunc // ends the renewal; guarded by turn
	done   chan struct{}      // closed when the renewal has ended; guarded by turn
	probed bool               // guarded by turn
	rival  seenLease          // of another owner, see rests; guarded by turn
	// holding is Config.Lock while it is held; guarded by turn.
	holding lock.Held

	mu    sync.Mutex // guards the fields below
	held  bool
	epoch int64
	state *mdt.State // as of the last Acquire, Commit, Update or Reload
}

// Open returns a sink for a place. It reads nothing and starts nothing.
func Open(_ context.Context, place mdt.Place, cfg Config) (*Sink, error) {
	if place.Store == nil || place.StateDir == "" || place.MDTDir == "" {
		return nil, fmt.Errorf("open sink: store, state directory and metadata directory are required: %w", storage.ErrRefused)
	}
	cfg.setDefaults()
	s := &Sink{cfg: cfg, blockLimit: blockLimit}
	own := storage.AllowOwn(place.StateDir, place.MDTDir)
	if place.IsBeside() {
		own = storage.AllowBeside(place.StateDir, place.MDTDir)
	}
	s.guard = storage.NewGuard(place.Store, func(p string) bool {
		if !own(p) {
			return false
		}
		if !strings.HasSuffix(p, ".deltacommit") {
			return true
		}
		commit := s.commitPath.Load()
		return commit != nil && *commit == p
	})
	place.Store = s.guard
	s.place = place
	s.metadata = timeline.NewReader(place.Store, place.File(".hoodie"))
	if s.data = cfg.Data; s.data == nil {
		s.data = timeline.NewReader(place.Store, dataDir)
	}
	return s, nil
}

// Guard returns the safety net below all writes of this sink, for its counters.
func (s *Sink) Guard() *storage.Guard { return s.guard }

// Owner returns the name under which this sink holds the lease.
func (s *Sink) Owner() string { return s.cfg.Owner }

// State returns a copy of the state as of the last Acquire, Commit, Update or Reload; nil before the first.
func (s *Sink) State() *mdt.State {
	if st := s.current(); st != nil {
		return st.Clone()
	}
	return nil
}

// current returns the published state, which is never changed.
func (s *Sink) current() *mdt.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Reload reads the state anew and returns a copy. Kinds as mdt.ReadState.
func (s *Sink) Reload(ctx context.Context) (*mdt.State, error) {
	st, _, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	s.publish(st)
	return st.Clone(), nil
}

func (s *Sink) publish(st *mdt.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = st
}

// lease says whether this sink has the lease, and its epoch, which stays after a loss until Release; 0: it was not acquired.
func (s *Sink) lease() (held bool, epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, s.epoch
}

func (s *Sink) setLease(held bool, epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.epoch = held, epoch
}

// isOutcomeKnown says whether a failed write certainly had no effect. Any other failure is resolved by reading.
func isOutcomeKnown(err error) bool {
	for _, kind := range []error{storage.ErrExists, storage.ErrConflict, storage.ErrRefused, storage.ErrUnsupported, storage.ErrNotFound} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
