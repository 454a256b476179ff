package timeline_test

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/testkit"
	"tidemark/timeline"

	godiff "github.com/google/go-cmp/cmp"
)

func allTables(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(testkit.Path("tables/*.tar.gz"))
	if err != nil || len(files) == 0 {
		t.Fatal("no fixture tables", err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".tar.gz")
	}
	return files
}

type key struct{ Requested, Completed, Action string }

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.Completed, other.Completed), cmp.Compare(k.Requested, other.Requested), cmp.Compare(k.Action, other.Action))
}

// The active timeline of every fixture table is what the oracle saw complete, less what it saw archived or undone.
func TestInstantsAreTheOracles(t *testing.T) {
	t.Parallel()
	for _, name := range allTables(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, p, tl := fixture(t, name)
			steps := testkit.Oracle(t, name)
			want, wantPending := expected(t, steps)
			var got, gotPending []key
			for _, inst := range tl.Instants() {
				switch {
				case inst.State != timeline.Completed:
					gotPending = append(gotPending, key{inst.Requested, inst.State.String(), string(inst.Action)})
				case inst.Derived:
					got = append(got, key{inst.Requested, "", string(inst.Action)})
				default:
					got = append(got, key{inst.Requested, inst.Completed, string(inst.Action)})
				}
			}
			if p.Layout == 1 { // completion times are modification times, which the tarballs do not keep
				for i := range want {
					want[i].Completed = ""
				}
				slices.SortFunc(want, key.compare)
				slices.SortFunc(got, key.compare)
			}
			if diff := godiff.Diff(want, got); diff != "" {
				t.Errorf("completed instants differ (-oracle +timeline):\n%s", diff)
			}
			if diff := godiff.Diff(wantPending, gotPending); diff != "" {
				t.Errorf("pending instants differ (-oracle +timeline):\n%s", diff)
			}
		})
	}
}

func expected(t *testing.T, steps []testkit.Step) (completed, pending []key) {
	t.Helper()
	live := map[key]bool{}
	for _, s := range steps {
		for _, i := range s.Instants {
			live[key{i.Requested, i.Completion, i.Action}] = true
		}
		for _, g := range s.Gone {
			requested := requestedIn(t, g)
			for k := range live {
				if k.Requested == requested.Requested && k.Action == requested.Action {
					delete(live, k)
				}
			}
		}
		pending = nil
		for _, p := range s.Pending {
			pending = append(pending, key{p.Requested, p.State, p.Action})
		}
	}
	for k := range live {
		completed = append(completed, k)
	}
	slices.SortFunc(completed, key.compare)
	return completed, pending
}

// Every timeline file of every table, and of its metadata table, is read by the reader of its action.
func TestEveryInstantIsReadable(t *testing.T) {
	t.Parallel()
	for _, name := range allTables(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := table(t, name)
			for _, dir := range []string{dotHoodie, ".hoodie/metadata/.hoodie"} {
				p, tl, err := timeline.Open(t.Context(), st, dir)
				if err != nil {
					if dir != dotHoodie && strings.Contains(err.Error(), "not found") {
						continue
					}
					t.Fatal(err)
				}
				for _, inst := range tl.Instants() {
					readAny(t, st, dir, p, inst)
				}
			}
		})
	}
}

func readAny(t *testing.T, st storage.Store, dir string, p *timeline.Properties, inst timeline.Instant) {
	t.Helper()
	ctx := t.Context()
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s of %s: %v", what, inst.File, err)
		}
	}
	if inst.Action.IsWrite() {
		m, err := timeline.ReadCommit(ctx, st, dir, p, inst)
		check("commit", err)
		if err == nil && inst.State == timeline.Completed {
			for _, s := range m.Stats {
				if s.Path == "" || s.FileID == "" || !strings.HasPrefix(s.Path, s.Partition) {
					t.Errorf("%s: stat without a path below its partition: %+v", inst.File, s)
				}
				if s.PrevCommit == "null" {
					t.Errorf("%s: previous commit is the text null", inst.File)
				}
			}
		}
	}
	if inst.Pending == timeline.Compaction || inst.Pending == timeline.LogCompaction {
		plan, err := timeline.ReadCompactionPlan(ctx, st, dir, p, inst)
		check("compaction plan", err)
		if err == nil && len(plan.Operations) == 0 {
			t.Errorf("%s: plan without operations", inst.Plan)
		}
	}
	if inst.Pending == timeline.Clustering {
		plan, err := timeline.ReadClusteringPlan(ctx, st, dir, p, inst)
		check("clustering plan", err)
		if err == nil && (plan.Operation != "CLUSTER" || len(plan.Groups) == 0 || plan.Groups[0][0].FileID == "") {
			t.Errorf("%s: plan %+v", inst.Plan, plan)
		}
	}
	if inst.State != timeline.Completed {
		return
	}
	var err error
	switch inst.Action {
	case timeline.Clean:
		_, err = timeline.ReadClean(ctx, st, dir, p, inst)
	case timeline.Rollback:
		_, err = timeline.ReadRollback(ctx, st, dir, p, inst)
	case timeline.Restore:
		_, err = timeline.ReadRestore(ctx, st, dir, p, inst)
	case timeline.Savepoint:
		_, err = timeline.ReadSavepoint(ctx, st, dir, p, inst)
	case timeline.Indexing:
		_, err = timeline.ReadIndexing(ctx, st, dir, p, inst)
	}
	check(string(inst.Action), err)
}
