package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/cloudtest"
	"tidemark/internal/storage/retry"
)

// quick repeats without waiting long.
var quick = retry.Config{First: time.Millisecond, Max: 5 * time.Millisecond, Budget: 30 * time.Second}

// eachCloud runs a test on a server and a store of each kind, without the layer that repeats calls.
func eachCloud(t *testing.T, test func(t *testing.T, server *cloudtest.Server, st storage.Store)) {
	t.Helper()
	for _, c := range clouds {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := c.start(t)
			st, err := c.open(server.URL, cloudtest.Bucket, "t")
			if err != nil {
				t.Fatal(err)
			}
			test(t, server, st)
		})
	}
}

func unknown(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
	}
	for _, kind := range []error{storage.ErrConflict, storage.ErrExists, storage.ErrNotFound, storage.ErrRefused, storage.ErrCorrupt} {
		if errors.Is(err, kind) {
			t.Errorf("%s: an unknown outcome has kind %v: %v", what, kind, err)
		}
	}
}

// calls makes every kind of call on a store that holds "t/f" and returns their errors by name.
func calls(ctx context.Context, st storage.Store) map[string]error {
	out := map[string]error{}
	_, _, out["read"] = st.ReadFile(ctx, "f")
	_, out["range"] = st.ReadRange(ctx, "f", 1, 2)
	_, out["stat"] = st.Stat(ctx, "f")
	_, out["list"] = st.List(ctx, "")
	_, out["create"] = st.Create(ctx, "new", []byte("1"))
	_, out["replace"] = st.Replace(ctx, "replaced", []byte("1"), "")
	out["delete"] = st.Delete(ctx, "gone")
	return out
}

// An answer that is lost after the effect leaves a call's outcome unknown; a repeated one finds out that it was its own.
func TestAnswersLost(t *testing.T) {
	t.Parallel()
	eachCloud(t, func(t *testing.T, server *cloudtest.Server, st storage.Store) {
		var lose atomic.Int64
		server.SetHook(func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
			if lose.Add(-1) >= 0 {
				cloudtest.Lose(w, r, serve)
				return
			}
			serve(w, r)
		})
		ctx := t.Context()
		lose.Store(1)
		_, err := st.Create(ctx, "a", []byte("1"))
		unknown(t, "create", err)
		if storage.Again(err) == 0 {
			t.Errorf("create: not worth repeating: %v", err)
		}
		again := retry.New(st, quick)
		for _, lost := range []int64{1, 2} {
			lose.Store(lost)
			name := fmt.Sprint("b", lost)
			if info, err := again.Create(ctx, name, []byte("12")); err != nil || info.Tag == "" || info.Size != 2 {
				t.Errorf("create with %d answers lost: %+v, %v", lost, info, err)
			}
			_, read, err := again.ReadFile(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			lose.Store(lost)
			if info, err := again.Replace(ctx, name, []byte("34"), read.Tag); err != nil || info.Tag == "" || info.Tag == read.Tag {
				t.Errorf("replace with %d answers lost: %+v, %v", lost, info, err)
			}
			lose.Store(lost)
			if err := again.Delete(ctx, name); err != nil {
				t.Errorf("delete with %d answers lost: %v", lost, err)
			}
		}
		if s := again.Stats(); s.Settled != 4 || s.GaveUp != 0 {
			t.Errorf("counted %+v", s)
		}
	})
}

// A body that ends early is never taken for a short file.
func TestBodiesCut(t *testing.T) {
	t.Parallel()
	eachCloud(t, func(t *testing.T, server *cloudtest.Server, st storage.Store) {
		content := bytes.Repeat([]byte("0123456789"), 10_000)
		server.Put("t/f", content, time.Now(), nil)
		var cut atomic.Int64
		server.SetHook(func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
			if n := cut.Swap(-1); n >= 0 {
				cloudtest.Cut(w, r, serve, int(n))
				return
			}
			serve(w, r)
		})
		ctx, again := t.Context(), retry.New(st, quick)
		for _, n := range []int64{0, 1, 60, 90} {
			cut.Store(n)
			_, err := st.List(ctx, "")
			unknown(t, fmt.Sprintf("list cut at %d", n), err)
			cut.Store(n)
			if infos, err := again.List(ctx, ""); err != nil || len(infos) != 1 {
				t.Errorf("list cut at %d: %v, %v", n, infos, err)
			}
			cut.Store(n)
			if _, err := again.Create(ctx, fmt.Sprint("made/", n), []byte("1")); err != nil {
				t.Errorf("create, answer cut at %d: %v", n, err)
			}
			cut.Store(n)
			if err := again.Delete(ctx, fmt.Sprint("made/", n)); err != nil {
				t.Errorf("delete, answer cut at %d: %v", n, err)
			}
		}
		for _, n := range []int64{0, 1, 4096, 50_000, 99_999} {
			cut.Store(n)
			_, _, err := st.ReadFile(ctx, "f")
			unknown(t, fmt.Sprintf("read cut at %d", n), err)
			cut.Store(n)
			if b, _, err := again.ReadFile(ctx, "f"); err != nil || !bytes.Equal(b, content) {
				t.Errorf("read cut at %d: %d bytes, %v", n, len(b), err)
			}
			cut.Store(min(n, 998))
			_, err = st.ReadRange(ctx, "f", 5, 1000)
			unknown(t, fmt.Sprintf("range cut at %d", n), err)
			cut.Store(min(n, 998))
			if b, err := again.ReadRange(ctx, "f", 5, 1000); err != nil || !bytes.Equal(b, content[5:1005]) {
				t.Errorf("range cut at %d: %d bytes, %v", n, len(b), err)
			}
		}
	})
}

// A third of all requests is refused or dropped: every call still succeeds, and nothing is done twice.
func TestThrottled(t *testing.T) {
	t.Parallel()
	eachCloud(t, func(t *testing.T, server *cloudtest.Server, st storage.Store) {
		var n atomic.Int64
		server.SetHook(func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
			switch n.Add(1) % 6 {
			case 1:
				w.WriteHeader(http.StatusServiceUnavailable)
			case 3:
				cloudtest.Drop(w)
			default:
				serve(w, r)
			}
		})
		again := retry.New(st, quick)
		want := map[string]bool{}
		for i := range 30 {
			name := fmt.Sprintf("f%02d", i)
			want["t/"+name] = true
			if _, err := again.Create(t.Context(), name, []byte(name)); err != nil {
				t.Error(err)
			}
			if b, _, err := again.ReadFile(t.Context(), name); err != nil || string(b) != name {
				t.Errorf("read %q, %v", b, err)
			}
		}
		if list, err := again.List(t.Context(), ""); err != nil || len(list) != len(want) {
			t.Errorf("list: %d names, %v", len(list), err)
		}
		if s := again.Stats(); s.GaveUp != 0 || s.Attempts-s.Calls < 15 {
			t.Errorf("counted %+v", s)
		}
	})
}

// A call is one request, whatever the answer: nobody but package retry repeats.
func TestOneRequestForACall(t *testing.T) {
	t.Parallel()
	eachCloud(t, func(t *testing.T, server *cloudtest.Server, st storage.Store) {
		server.Put("t/f", []byte("0123"), time.Now(), nil)
		for what, err := range calls(t.Context(), st) {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if got := server.Requests(); len(got) != 7 {
			t.Errorf("%d requests for 7 calls: %q", len(got), got)
		}
		for _, status := range []int{500, 503, 429, 408} {
			before := len(server.Requests())
			server.SetHook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) { w.WriteHeader(status) })
			for what, err := range calls(t.Context(), st) {
				unknown(t, fmt.Sprint(status, " ", what), err)
				if storage.Again(err) == 0 || storage.Hint(err) == "" {
					t.Errorf("%d %s: %v, again %v, hint %q", status, what, err, storage.Again(err), storage.Hint(err))
				}
			}
			if got := server.Requests()[before:]; len(got) != 7 {
				t.Errorf("%d: %d requests for 7 calls: %q", status, len(got), got)
			}
		}
	})
}

// What the store refuses is said with its reason, the request's id and the next step, and the next call works once it is over.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		kind   error // nil: unknown
		hint   string
	}{
		{"no permission", 403, storage.ErrRefused, "permission"},
		{"no credentials", 401, storage.ErrRefused, "credentials"},
		{"disk full", 507, nil, "free space"},
		{"no conditional puts", 501, storage.ErrUnsupported, "conditional puts"},
		{"nonsense", 418, storage.ErrRefused, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eachCloud(t, func(t *testing.T, server *cloudtest.Server, st storage.Store) {
				server.Put("t/f", []byte("0123"), time.Now(), nil)
				server.SetHook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
					for _, h := range []string{"X-Amz-Request-Id", "X-Guploader-Uploadid", "X-Ms-Request-Id"} {
						w.Header().Set(h, "REQ77")
					}
					w.WriteHeader(c.status)
				})
				again := retry.New(st, quick)
				for what, err := range calls(t.Context(), again) {
					if c.kind == nil {
						unknown(t, what, err)
					} else if !errors.Is(err, c.kind) {
						t.Errorf("%s: %v, want kind %v", what, err, c.kind)
					}
					if err != nil && (!strings.Contains(err.Error(), "REQ77") || !strings.Contains(err.Error(), fmt.Sprint(c.status)) ||
						!strings.Contains(storage.Hint(err), c.hint)) {
						t.Errorf("%s: %v, hint %q", what, err, storage.Hint(err))
					}
				}
				if s := again.Stats(); s.Attempts != s.Calls {
					t.Errorf("repeated what cannot help: %+v", s)
				}
				server.SetHook(nil)
				for what, err := range calls(t.Context(), again) {
					if err != nil {
						t.Errorf("afterwards %s: %v", what, err)
					}
				}
			})
		})
	}
}

func TestPlacesThatAreNotThere(t *testing.T) {
	t.Parallel()
	for _, c := range clouds {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := c.start(t)
			for _, p := range []struct {
				name, endpoint, bucket string
				kind                   error
				again                  time.Duration
				hint                   string
			}{
				{"no such bucket", server.URL, "other", storage.ErrRefused, 0, "there is no bucket other"},
				{"nothing listens", "http://127.0.0.1:1", cloudtest.Bucket, nil, 10 * time.Second, "nothing answers there"},
				{"no such host", "http://no-such-host.invalid", cloudtest.Bucket, nil, 0, "there is no such host"},
				{"not TLS", strings.Replace(server.URL, "http:", "https:", 1), cloudtest.Bucket, nil, 0, "cannot be trusted"},
			} {
				st, err := c.open(p.endpoint, p.bucket, "t")
				if err != nil {
					t.Fatal(err)
				}
				for what, err := range calls(t.Context(), st) {
					if p.name == "no such host" && storage.Again(err) > 0 {
						continue // a machine without name service cannot say that there is none
					}
					if p.name == "no such bucket" && c.name == "S3" && what == "stat" {
						// HEAD has no body to say which of both is missing; the listing that follows does.
						what += " (by its listing)"
					}
					if p.kind == nil {
						unknown(t, p.name+": "+what, err)
					} else if !errors.Is(err, p.kind) {
						t.Errorf("%s: %s: got %v", p.name, what, err)
					}
					if strings.Contains(err.Error(), "://") {
						t.Errorf("%s: %s: a URL, with what may be a signature, in %v", p.name, what, err)
					}
					if storage.Again(err) != p.again || !strings.Contains(storage.Hint(err), p.hint) {
						t.Errorf("%s: %s: %v, again %v, hint %q", p.name, what, err, storage.Again(err), storage.Hint(err))
					}
				}
			}
		})
	}
}

// A call ends with its context, and says so.
func TestContextEndsACall(t *testing.T) {
	t.Parallel()
	eachCloud(t, func(t *testing.T, server *cloudtest.Server, st storage.Store) {
		server.SetHook(func(_ http.ResponseWriter, r *http.Request, _ http.HandlerFunc) { <-r.Context().Done() })
		for _, wrapped := range []storage.Store{st, retry.New(st, quick)} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			_, _, err := wrapped.ReadFile(ctx, "f")
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
	})
}

// However many calls are made at once, a store opens no more connections than it may; those that are refused meanwhile come back, and
// nothing is lost.
func TestManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	const most, callers = 64, 200
	eachCloud(t, func(t *testing.T, server *cloudtest.Server, st storage.Store) {
		server.Put("t/f", []byte("0123"), time.Now(), nil)
		var now, peak, n atomic.Int64
		full := make(chan struct{})
		reached := make(chan struct{})
		allIn := sync.OnceFunc(func() { close(reached) })
		server.SetHook(func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
			in := now.Add(1)
			defer now.Add(-1)
			for old := peak.Load(); in > old && !peak.CompareAndSwap(old, in); old = peak.Load() {
			}
			if in == most {
				allIn()
			}
			<-full
			if n.Add(1)%3 == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			serve(w, r)
		})
		again := retry.New(st, quick)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				if b, err := again.ReadRange(t.Context(), "f", 1, 2); err != nil || string(b) != "12" {
					t.Errorf("%q, %v", b, err)
				}
			})
		}
		<-reached // all that may come at once are there; one more gets no connection
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		if _, err := st.Stat(ctx, "f"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one more call: %v", err)
		}
		cancel()
		close(full)
		wg.Wait()
		if p := peak.Load(); p != most {
			t.Errorf("%d requests at once", p)
		}
		if s := again.Stats(); s.GaveUp != 0 || s.Attempts-s.Calls < callers/3 {
			t.Errorf("counted %+v", s)
		}
	})
}
