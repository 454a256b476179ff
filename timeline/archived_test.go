package timeline_test

import (
	"slices"
	"testing"

	"tidemark/internal/testkit"
	"tidemark/timeline"
)

const mdtHoodie = ".hoodie/metadata/.hoodie"

func collect(t testing.TB, a *timeline.Archive, from, to string) []timeline.Instant {
	t.Helper()
	var out []timeline.Instant
	for i, err := range a.Instants(t.Context(), from, to) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, i)
	}
	return out
}

// Every instant that the oracle saw complete is either active or archived, once, with its times; the archived ones have
// their metadata and plans.
func TestEveryArchivedInstant(t *testing.T) {
	t.Parallel()
	st, p, tl := fixture(t, "archived")
	a := timeline.NewArchive(st, dotHoodie, p)
	want := map[key]bool{}
	for _, s := range testkit.Oracle(t, "archived") {
		for _, i := range s.Instants {
			want[key{i.Requested, i.Completion, i.Action}] = true
		}
	}
	active := len(tl.CompletedOf(timeline.Commit)) + len(tl.CompletedOf(timeline.Clean))
	archived := collect(t, a, "", "")
	if len(archived) != 72 || len(want) != 85 || active != 13 {
		t.Errorf("%d archived and %d active of %d, want 72 and 13 of 85", len(archived), active, len(want))
	}
	for _, i := range append(archived, tl.Instants()...) {
		k := key{i.Requested, i.Completed, string(i.Action)}
		if !want[k] {
			t.Errorf("%v is in no step, or twice", k)
		}
		delete(want, k)
	}
	for k := range want {
		t.Errorf("%v is missing", k)
	}
	commits := 0
	for _, i := range archived {
		if !i.Archived || i.State != timeline.Completed || i.Derived {
			t.Errorf("%+v", i)
		}
		if i.Action == timeline.Clean {
			m, err := a.Clean(t.Context(), i)
			if err != nil || m.LastCompleted == "" {
				t.Errorf("clean %s: %+v, %v", i.Requested, m, err)
			}
			continue
		}
		commits++
		m, err := a.Commit(t.Context(), i)
		if err != nil || len(m.Stats) == 0 || m.Extra["schema"] == "" || m.Digest == [32]byte{} {
			t.Errorf("%s %s: %+v, %v", i.Action, i.Requested, m, err)
			continue
		}
		for _, s := range m.Stats {
			if s.Path == "" || s.FileID == "" || s.NumWrites == 0 {
				t.Errorf("%s: stat %+v", i.Requested, s)
			}
		}
	}
	if commits == 0 || commits == len(archived) {
		t.Errorf("%d commits of %d instants", commits, len(archived))
	}
	writes, err := a.Writes(t.Context(), tl, "")
	if err != nil || len(writes) != commits || !slices.IsSortedFunc(writes, func(x, y timeline.Instant) int {
		return key{x.Requested, x.Completed, ""}.compare(key{y.Requested, y.Completed, ""})
	}) {
		t.Errorf("%d writes of %d commits, %v", len(writes), commits, err)
	}
	some, err := a.Writes(t.Context(), tl, writes[9].Completed)
	if err != nil || len(some) != len(writes)-10 || some[0] != writes[10] {
		t.Errorf("%d writes after the tenth, %v", len(some), err)
	}
}

// The metadata table archives as well, its initialising instants included.
func TestArchiveOfTheMetadataTable(t *testing.T) {
	t.Parallel()
	st := table(t, "archived")
	p, tl, err := timeline.Open(t.Context(), st, mdtHoodie)
	if err != nil {
		t.Fatal(err)
	}
	a := timeline.NewArchive(st, mdtHoodie, p)
	all := collect(t, a, "", "")
	for _, i := range all {
		if i.Action.IsWrite() {
			if _, err := a.Commit(t.Context(), i); err != nil {
				t.Errorf("%s: %v", i.Requested, err)
			}
		}
		if _, ok := tl.CompletionOf(i.Requested); ok {
			t.Errorf("%s is in both", i.Requested)
		}
	}
	if len(all) < 50 {
		t.Errorf("only %d", len(all))
	}
	if upto, err := a.Upto(t.Context()); err != nil || upto != all[len(all)-1].Requested {
		t.Errorf("up to %s, the last is %s: %v", upto, all[len(all)-1].Requested, err)
	}
}
