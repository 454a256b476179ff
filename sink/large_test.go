package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/hudi/logfile"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// stream hands on n records that do not compress, in one reused buffer, and then err.
func stream(n int, err error) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		r := rand.New(rand.NewPCG(1, 2))
		var key, payload []byte
		for i := range n {
			key = fmt.Appendf(key[:0], "key %06d", i)
			payload = append(payload[:0], record("", "").Payload...)
			for range 40 {
				payload = append(payload, byte('!'+r.IntN(90)))
			}
			if !yield(Record{key, payload}, nil) {
				return
			}
		}
		if err != nil {
			yield(Record{}, err)
		}
	}
}

// large is a batch of one big log a file group.
func large(i timeline.Instant, n int, err error) Batch {
	b := follow(idx, i)
	b.Build = func(id, completion string) ([]FileRecords, error) {
		var out []FileRecords
		for g := range groups {
			out = append(out, FileRecords{Index: idx, Group: g, Stream: stream(n*g, err)})
		}
		return out, nil
	}
	return b
}

// files returns the paths and bytes of the newest commit.
func files(t *testing.T, st *mem.Store, s *Sink) map[string]string {
	t.Helper()
	out := map[string]string{}
	state := s.State()
	for _, f := range state.Commits[len(state.Commits)-1].Files {
		b, _, err := st.ReadFile(t.Context(), s.place.File(f.Path))
		if err != nil {
			t.Fatal(err)
		}
		out[f.Path] = string(b)
	}
	return out
}

func emptied(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 0 {
		t.Errorf("left in the temporary folder: %v, %v", list, err)
	}
}

// counts the files that are streamed.
type counts struct {
	storage.Store
	streamed *int
}

func (c counts) CreateFrom(ctx context.Context, p string, size int64, open storage.Open) (storage.Info, error) {
	*c.streamed++
	return c.Store.CreateFrom(ctx, p, size, open)
}

func TestLargeFilesAreTheSame(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	_ = s.Release(t.Context())
	i := last(t, st)
	var want map[string]string
	for _, memory := range []int64{0, 1, 10_000, 40_000} {
		dir := t.TempDir()
		left := st.Clone()
		streamed := 0
		cfg := config(clk, "two")
		cfg.Memory, cfg.TempDir = memory, dir
		two := acquired(t, counts{left, &streamed}, cfg)
		if _, err := two.Commit(t.Context(), large(i, 2000, nil)); err != nil {
			t.Fatal(err)
		}
		got := files(t, left, two)
		if want == nil {
			want = got
			if len(want) != groups || streamed != 0 {
				t.Fatalf("%d files, %d streamed", len(want), streamed)
			}
		}
		for p, b := range got {
			if b != want[p] {
				t.Errorf("memory %d: %s has other bytes", memory, p)
			}
		}
		if memory > 0 && streamed == 0 {
			t.Errorf("memory %d: nothing was streamed", memory)
		}
		emptied(t, dir)
	}
}

// TestSeveralBlocks cuts logs into blocks as a limit of content asks for; readers see the same records.
func TestSeveralBlocks(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	_ = s.Release(t.Context())
	i := last(t, st)
	records := func(limit int64) (map[string]string, int) {
		left := st.Clone()
		two := acquired(t, left, config(clk, "two"))
		two.blockLimit = limit
		if _, err := two.Commit(t.Context(), large(i, 5000, nil)); err != nil {
			t.Fatal(err)
		}
		blocks := 0
		for p, b := range files(t, left, two) {
			for b, err := range logfile.Blocks(t.Context(), storage.BytesSource([]byte(b))) {
				if err != nil || !b.IsData() || b.Instant() != two.State().Commits[len(two.State().Commits)-1].ID || b.ContentSize > 70_000+limit {
					t.Fatalf("%s: block %+v, %v", p, b, err)
				}
				blocks++
			}
		}
		view, err := mdt.OpenView(t.Context(), two.place, two.State(), idx)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		err = view.ScanEntries(t.Context(), []byte("key "), func(e mdt.Entry) error {
			out[string(e.Key)] = string(e.Value)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := view.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		return out, blocks
	}
	want, blocks := records(1 << 30)
	if len(want) != 5000 || blocks != groups {
		t.Fatalf("%d records in %d blocks", len(want), blocks)
	}
	for _, limit := range []int64{1, 50_000, 150_000} {
		got, blocks := records(limit)
		if !maps.Equal(got, want) || blocks < groups+1 {
			t.Errorf("limit %d: %d records in %d blocks", limit, len(got), blocks)
		}
	}
}

func TestStreamFails(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	_ = s.Release(t.Context())
	i, bad, dir := last(t, st), errors.New("no more"), t.TempDir()
	cfg := config(clk, "two")
	cfg.Memory, cfg.TempDir = 1000, dir
	two := acquired(t, st, cfg)
	if _, err := two.Commit(t.Context(), large(i, 3000, bad)); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b := large(i, 3000, nil)
	b.Recheck = func(context.Context) error { cancel(); return ctx.Err() }
	if _, err := two.Commit(ctx, b); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	missing := filepath.Join(dir, "missing")
	two.cfg.TempDir = missing
	_, err := two.Commit(t.Context(), large(i, 3000, nil))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) || !strings.Contains(storage.Hint(err), "TMPDIR") {
		t.Errorf("no temporary folder: %v, hint %q", err, storage.Hint(err))
	}
	if state := two.State(); state.Intent != nil || len(state.Indexes[idx].Covered) != 0 {
		t.Errorf("not taken back: %+v", state)
	}
	emptied(t, dir)
	two.cfg.TempDir = dir
	if _, err := two.Commit(t.Context(), large(i, 3000, nil)); err != nil {
		t.Error(err)
	}
	emptied(t, dir)
}

// TestLargeUnknownOutcome lets each call of a commit of large files fail with its outcome hidden; the same process goes on.
func TestLargeUnknownOutcome(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	_ = s.Release(t.Context())
	i := last(t, st)
	for n := 1; ; n++ {
		left := st.Clone()
		for _, after := range []bool{false, true} {
			left := left.Clone()
			cfg := config(clk, "two")
			cfg.Memory = 1000
			layer := fault.New(left, fault.Config{FailAt: n, FailAfter: after})
			two := open(t, layer, cfg)
			err := two.Acquire(t.Context())
			if err == nil {
				_, err = two.Commit(t.Context(), large(i, 500, nil))
			}
			failed := err != nil
			if failed && !errors.Is(err, fault.ErrUnknown) {
				t.Fatalf("call %d: %v", n, err)
			}
			if failed {
				if err = two.Acquire(t.Context()); err == nil {
					_, err = two.Commit(t.Context(), large(i, 500, nil))
				}
				if err != nil && !errors.Is(err, storage.ErrStale) { // stale: the attempt before became visible
					t.Fatalf("call %d, once more: %v", n, err)
				}
			}
			if _, ok := two.State().Indexes[idx].Covered[i.Requested]; !ok {
				t.Errorf("call %d: not covered", n)
			}
			if layer.Calls() < n {
				return
			}
		}
	}
}

// damagesLarge flips a bit of what is streamed.
type damagesLarge struct {
	storage.Store
	left *int
}

func (d damagesLarge) CreateFrom(ctx context.Context, p string, size int64, open storage.Open) (storage.Info, error) {
	if *d.left == 0 {
		return d.Store.CreateFrom(ctx, p, size, open)
	}
	*d.left--
	r, err := open()
	if err != nil {
		return storage.Info{}, err
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return storage.Info{}, err
	}
	b = slices.Clone(b)
	b[len(b)/2] ^= 1
	return d.Store.Create(ctx, p, b)
}

func TestReadBackFindsDamageInLargeFiles(t *testing.T) {
	t.Parallel()
	st, s, clk := built(t, "cow_basic")
	_ = s.Release(t.Context())
	left, i := 1, last(t, st)
	cfg := config(clk, "two")
	cfg.Memory = 1000
	two := acquired(t, damagesLarge{st, &left}, cfg)
	if _, err := two.Commit(t.Context(), large(i, 2000, nil)); !errors.Is(err, storage.ErrCorrupt) || storage.Hint(err) == "" {
		t.Fatalf("got %v", err)
	}
	if _, err := two.Commit(t.Context(), large(i, 2000, nil)); err != nil {
		t.Error(err)
	}
}
