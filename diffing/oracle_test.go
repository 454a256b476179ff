package diffing_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidemark/delta"
	"tidemark/diffing"
	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/hudimodel"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/internal/vector/kernel"
	"tidemark/timeline"
)

// collector keeps changes as a caller of Compare takes them.
type collector struct {
	instant string
	vectors []avrox.Vector
	changes map[int][]delta.Change
	resets  int
}

func (c *collector) Add(target int, ch diffing.Change) error {
	own := func(v *delta.Version) *delta.Version {
		if v == nil {
			return nil
		}
		o := *v
		if v.Raw != nil {
			o.Raw, o.Vector = bytes.Clone(v.Raw), make([]float32, c.vectors[target].Dim)
			kernel.ToFloat32(o.Vector, v.Raw, c.vectors[target].Element.Kernel())
		}
		return &o
	}
	c.changes[target] = append(c.changes[target], delta.Change{Class: ch.Class, Key: string(ch.Key), Instant: c.instant, Old: own(ch.Old), New: own(ch.New)})
	return nil
}

func (c *collector) Reset() { c.changes = map[int][]delta.Change{}; c.resets++ }

// failer is *testing.T or *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// differential compares every completed write of a table with the naive form, in completion order, with the windows in turn.
// It returns how many could be compared.
func differential(ctx context.Context, t failer, st storage.Store, windows ...int64) (compared int) {
	t.Helper()
	tab, err := table.Open(ctx, st)
	if err != nil {
		t.Fatalf("%v", err)
	}
	files, err := tab.Files(ctx)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if tab.Schema == nil {
		return 0 // no commit yet
	}
	src := real{tab, files}
	var targets []diffing.Target
	for _, f := range tab.Schema.Fields() {
		if f.Vector != nil {
			targets = append(targets, diffing.Target{Index: f.Name + " l2", Vector: *f.Vector, Metric: kernel.L2},
				diffing.Target{Index: f.Name + " cosine", Vector: *f.Vector, Metric: kernel.Cosine})
		}
	}
	if len(targets) == 0 {
		t.Fatalf("no vector column")
	}
	in := map[string]bool{}
	known := map[string]diffing.Posting{}
	for n, w := range tab.Timeline.Writes() {
		meta, err := timeline.ReadCommit(ctx, st, table.HoodieDir, tab.Props, w)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for _, window := range windows[n%len(windows):][:1] {
			req := diffing.Request{
				Instants: []timeline.Instant{w}, Metas: []*timeline.CommitMetadata{meta}, Targets: targets, Window: window,
				Incorporated: func(i timeline.Instant) bool { return in[i.Requested] },
				Completion: func(requested string) string {
					if c, ok := tab.Timeline.CompletionOf(requested); ok {
						return c
					}
					return requested
				},
				Known: func(context.Context, string) (map[string]diffing.Posting, error) { return known, nil },
			}
			want, wantErr := naive(ctx, src, req)
			c := &collector{instant: w.Requested, changes: map[int][]delta.Change{}}
			for _, x := range targets {
				c.vectors = append(c.vectors, x.Vector)
			}
			if window%2 == 1 {
				req.Changes = c
			}
			got, err := diffing.Compare(ctx, src, req)
			if (err == nil) != (wantErr == nil) || errors.Is(err, storage.ErrStale) != errors.Is(wantErr, storage.ErrStale) {
				t.Fatalf("%s %s: error %v, want %v", w.Action, w.Requested, err, wantErr)
			}
			if err != nil {
				continue
			}
			compared++
			for i := range got {
				got[i].Changes = append(got[i].Changes, c.changes[i]...)
				slices.SortFunc(got[i].Changes, func(a, b delta.Change) int { return cmp.Compare(a.Key, b.Key) })
				agree(t, fmt.Sprintf("%s %s (%s), window %d, %s", w.Action, w.Requested, meta.Operation, window, got[i].Index), got[i], want[i])
			}
			for _, ch := range want[0].Changes {
				if ch.New == nil {
					delete(known, ch.Key)
				} else {
					known[ch.Key] = diffing.Posting{Cluster: 3, Locator: ch.New.Locator}
				}
			}
		}
		in[w.Requested] = true
	}
	return compared
}

// agree compares everything but what depends on how much was looked at.
func agree(t failer, what string, got, want diffing.Result) {
	t.Helper()
	for _, class := range []delta.Class{delta.Unchanged, delta.Unindexable} {
		if got.Counts[class] > want.Counts[class] {
			t.Fatalf("%s: %d %s, whole slices have %d", what, got.Counts[class], class, want.Counts[class])
		}
		got.Counts[class], want.Counts[class] = 0, 0
	}
	got.Work, got.Copies, got.Reasons, want.Reasons, got.Sample = diffing.Work{}, nil, nil, nil, nil
	if d := gocmp.Diff(want, got); d != "" {
		t.Fatalf("%s (−naive +got):\n%s", what, d)
	}
}

// Every commit of every recorded table, compared in its own way and naively.
func TestFixturesLikeNaive(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob(testkit.Path("tables/*.tar.gz"))
	if err != nil || len(archives) < 30 {
		t.Fatal(len(archives), err)
	}
	short := []string{"cow_basic", "mor_basic", "merge_event_time", "partial_update", "parquet_logs", "keys_unicode", "log_compaction", "mor_compaction_clean",
		"mor_clustering", "nbcc_overlap_compaction", "replace_ops", "two_vectors", "virtual_keys", "partition_move"}
	for n, archive := range archives {
		if testkit.Thinned(n, 5) {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		if strings.HasPrefix(name, "v6") || strings.HasPrefix(name, "flink") {
			continue // other versions, or without a vector column
		}
		if os.Getenv("TIDEMARK_TEST_LONG") == "" && !slices.Contains(short, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, err := mem.FromDir(name, testkit.Table(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if differential(t.Context(), t, st, 0, 101) == 0 {
				t.Error("nothing compared")
			}
		})
	}
}

// Random histories of real files, compared in its own way and naively, with windows so small that rows wait on disk.
func TestHistoriesLikeNaive(t *testing.T) {
	t.Parallel()
	checks := "8"
	if os.Getenv("TIDEMARK_TEST_LONG") != "" {
		checks = "1000"
	}
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []struct {
		name                   string
		cfg                    hudimodel.Config
		overlap, clean, copies bool
	}{
		{name: "cow", cfg: hudimodel.Config{}, clean: true},
		{name: "cow with copies", cfg: hudimodel.Config{}, copies: true},
		{name: "mor", cfg: hudimodel.Config{MoR: true}, overlap: true},
		{name: "mor event time", cfg: hudimodel.Config{MoR: true, EventTime: true}, overlap: true, clean: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				cfg := p.cfg
				cfg.Dim = rapid.IntRange(2, 3).Draw(rt, "dim")
				cfg.Marker = rapid.Bool().Draw(rt, "marker")
				seldom := func(what string) bool { return rapid.IntRange(0, 3).Draw(rt, what) == 3 }
				cfg.Second, cfg.Composite, cfg.CDC, cfg.Virtual = seldom("second"), seldom("composite"), seldom("cdc"), !p.copies && seldom("virtual")
				cfg.TwoOrderings, cfg.Nulls = cfg.EventTime && seldom("two orderings"), cfg.EventTime && seldom("nulls")
				w := hudimodel.New(t, cfg)
				g := hudimodel.NewGenerator(w, rt)
				g.Overlap, g.Clean, g.Copies = p.overlap, p.clean, p.copies
				for range rapid.IntRange(2, 8).Draw(rt, "steps") {
					g.Step()
				}
				g.End()
				differential(t.Context(), rt, w.Store, rapid.SampledFrom([]int64{0, 1, 700, 2001}).Draw(rt, "window"))
			})
		})
	}
}
