package indexer_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/cloudtest"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/internal/storage/retry"
	"tidemark/internal/storage/s3"
)

// troubled is a table with an index of its first commit, and what a sync without trouble makes of it.
func troubled(t *testing.T) (start *mem.Store, want outcome) {
	t.Helper()
	start = store(t, "local_zone")
	create(t, mdt.Inside(start), generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, mdt.Inside(start))},
		map[string]string{"vector.num_clusters": "3"})
	whole := start.Clone()
	if _, err := indexer.Sync(t.Context(), mdt.Inside(whole), indexer.SyncOptions{Sink: dead()}); err != nil {
		t.Fatal(err)
	}
	return start, outcomeOf(t, mdt.Inside(whole))
}

// A sync over S3 that meets a store in trouble ends with the right index once the trouble is over, in the same process: at once
// where repeating helps, else by the next sync.
func TestSyncOverTroubledS3(t *testing.T) {
	t.Parallel()
	start, want := troubled(t)
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for _, c := range []struct {
		name  string
		hurt  func(n int64, r *http.Request) bool // whether a request goes wrong
		wrong func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc)
		fails bool // the sync says so, instead of repeating until it works
	}{
		{"every request is refused for a while", func(n int64, _ *http.Request) bool { return n > 20 && n <= 40 },
			func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { status(503)(w, r) }, false},
		{"one of three is refused", func(n int64, _ *http.Request) bool { return n%3 == 0 },
			func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { status(503)(w, r) }, false},
		{"the answer to every second write is lost", func(n int64, r *http.Request) bool { return r.Method != http.MethodGet && n%2 == 0 },
			cloudtest.Lose, false},
		{"the answer to the first write of each name is lost", firstOf(http.MethodPut), cloudtest.Lose, false},
		{"one of three reads breaks off", func(n int64, r *http.Request) bool { return r.Method == http.MethodGet && n%3 == 0 },
			func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) { cloudtest.Cut(w, r, serve, 5) }, false},
		{"full", func(n int64, r *http.Request) bool { return n > 20 && r.Method == http.MethodPut },
			func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { status(507)(w, r) }, true},
		{"full at the commit file", func(_ int64, r *http.Request) bool {
			return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, ".deltacommit")
		}, func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { status(507)(w, r) }, true},
		{"no permission to write", func(_ int64, r *http.Request) bool { return r.Method == http.MethodPut },
			func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { status(403)(w, r) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := cloudtest.S3(t)
			for _, f := range start.Paths() {
				b, info, err := start.ReadFile(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				server.Put("t/"+f, b, info.ModTime, nil)
			}
			plain, err := s3.New(cloudtest.Bucket, "t", s3.Options{Endpoint: server.URL, Region: cloudtest.Region,
				AccessKey: cloudtest.Writer, SecretKey: cloudtest.Secret})
			if err != nil {
				t.Fatal(err)
			}
			st := retry.New(plain, retry.Config{First: time.Millisecond, Max: 4 * time.Millisecond})
			var n, hurt atomic.Int64
			server.SetHook(func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
				if c.hurt(n.Add(1), r) {
					hurt.Add(1)
					c.wrong(w, r, serve)
					return
				}
				serve(w, r)
			})
			_, err = indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{Sink: dead()})
			if (err != nil) != c.fails || hurt.Load() == 0 {
				t.Fatalf("%d of %d requests went wrong: %v", hurt.Load(), n.Load(), err)
			}
			if c.fails && storage.Hint(err) == "" {
				t.Errorf("no next step: %v", err)
			}
			server.SetHook(nil)
			if c.fails {
				if _, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{Sink: dead()}); err != nil {
					t.Fatalf("once it is over: %v", err)
				}
			}
			if d := cmp.Diff(want, outcomeOf(t, mdt.Inside(plain))); d != "" {
				t.Errorf("(-without trouble +with)\n%s", d)
			}
			t.Logf("%d of %d requests went wrong, %+v", hurt.Load(), n.Load(), st.Stats())
		})
	}
}

// firstOf says which requests are the first of their method for a name.
func firstOf(method string) func(int64, *http.Request) bool {
	seen := make(chan map[string]bool, 1)
	seen <- map[string]bool{}
	return func(_ int64, r *http.Request) bool {
		known := <-seen
		defer func() { seen <- known }()
		first := r.Method == method && !known[r.URL.Path]
		known[r.URL.Path] = known[r.URL.Path] || first
		return first
	}
}

// The same with real waits, on a clock of the test's own: two minutes of refusals in each call are nothing that a sync must tell
// anybody of.
func TestSyncWaitsForItsStore(t *testing.T) {
	t.Parallel()
	start, want := troubled(t)
	for _, c := range []struct {
		name  string
		fault fault.Outcome
		hurt  func(n int64, since time.Duration) bool
	}{
		{"every call for a minute and a half", fault.Outcome{Err: fault.Throttled()},
			func(n int64, since time.Duration) bool { return n > 30 && since < 90*time.Second }},
		{"one of three calls", fault.Outcome{Err: fault.Throttled()}, func(n int64, _ time.Duration) bool { return n%3 == 0 }},
		{"answers lost", fault.Outcome{Err: fault.TimedOut(), After: true}, func(n int64, _ time.Duration) bool { return n%4 == 0 }},
		{"requests lost", fault.Outcome{Err: fault.TimedOut()}, func(n int64, _ time.Duration) bool { return n%4 == 0 }},
		{"answers cut short", fault.Outcome{Err: fault.CutShort(), After: true}, func(n int64, _ time.Duration) bool { return n%2 == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			left := start.Clone()
			inBubble(t, func(t *testing.T) {
				began := time.Now()
				var n atomic.Int64
				layer := fault.New(left, fault.Config{Decide: func(string, string) fault.Outcome {
					if c.hurt(n.Add(1), time.Since(began)) {
						return c.fault
					}
					return fault.Outcome{}
				}})
				st := retry.New(layer, retry.Config{})
				if _, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{Sink: dead()}); err != nil {
					t.Fatal(err)
				}
				if s := st.Stats(); s.Attempts-s.Calls < 5 || s.GaveUp > 0 {
					t.Errorf("counted %+v", s)
				}
			})
			if d := cmp.Diff(want, outcomeOf(t, mdt.Inside(left))); d != "" {
				t.Errorf("(-without trouble +with)\n%s", d)
			}
		})
	}
}

// A store that is full, or short of space for one write only, at any write of a sync: the sync says so, and the next one in the
// same process makes it right.
func TestSyncOnAFullStore(t *testing.T) {
	t.Parallel()
	start, want := troubled(t)
	writes := func(op string) bool { return op == "create" || op == "replace" }
	for name, full := range map[string]fault.Outcome{"disk full": {Err: fault.DiskFull()}, "short write": {Short: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for at, reached := int64(1), true; reached; at++ {
				left := start.Clone()
				var n, met atomic.Int64
				layer := fault.New(left, fault.Config{Decide: func(op, _ string) fault.Outcome {
					if !writes(op) {
						return fault.Outcome{}
					}
					if k := n.Add(1); k < at || k > at && name == "short write" {
						return fault.Outcome{}
					}
					met.Add(1)
					return full
				}})
				_, err := indexer.Sync(t.Context(), mdt.Inside(layer), indexer.SyncOptions{Sink: dead()})
				if reached = met.Load() > 0; reached && (err == nil || !strings.Contains(storage.Hint(err), "free space")) && name == "disk full" {
					t.Fatalf("full at write %d: %v, hint %q", at, err, storage.Hint(err))
				}
				n.Store(-1 << 30) // it is over
				if _, err := indexer.Sync(t.Context(), mdt.Inside(layer), indexer.SyncOptions{Sink: dead()}); err != nil {
					t.Fatalf("full at write %d, once it is over: %v", at, err)
				}
				if d := cmp.Diff(want, outcomeOf(t, mdt.Inside(left))); d != "" {
					t.Fatalf("full at write %d: (-without trouble +with)\n%s", at, d)
				}
				if o := orphans(t, left); len(o) > 0 {
					t.Fatalf("full at write %d: orphans %v", at, o)
				}
				if !reached && at < 8 {
					t.Fatalf("a sync of %d writes: the test shows nothing", at-1)
				}
			}
		})
	}
}
