package generation_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
)

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, table string
		req         generation.CreateRequest
		options     []string
		kind        error
		text        string
	}{
		{"missing column", "cow_basic", generation.CreateRequest{Column: "nothing"}, nil, storage.ErrUnsupported, "nothing"},
		{"a column that is no vector", "cow_basic", generation.CreateRequest{Column: "ts"}, nil, storage.ErrUnsupported, "ts"},
		{"bad name", "cow_basic", generation.CreateRequest{Column: "embedding", Name: "../x"}, nil, storage.ErrRefused, "name"},
		{"memory", "cow_basic", generation.CreateRequest{Column: "embedding", MemoryLimit: 1000}, nil, storage.ErrRefused, "memory"},
		{"memory by option", "cow_basic", generation.CreateRequest{Column: "embedding"}, []string{"tidemark.memory_limit", "1KiB"}, storage.ErrRefused, "memory"},
		{"version 6", "v6", generation.CreateRequest{Column: "embedding"}, nil, storage.ErrUnsupported, ""},
		{"duplicate keys", "keys_unicode", generation.CreateRequest{Column: "embedding"}, nil, storage.ErrRefused, "more than once"},
		{"a cleaned snapshot", "mor_compaction_clean", generation.CreateRequest{Column: "embedding", AsOf: "first"}, nil, storage.ErrRefused, ""},
		{"an unknown instant", "cow_basic", generation.CreateRequest{Column: "embedding", AsOf: "20010101000000000"}, nil, storage.ErrNotFound, "20010101000000000"},
		{"a pending instant", "pending", generation.CreateRequest{Column: "embedding", AsOf: "pending"}, nil, storage.ErrRefused, ""},
		{"more probes than clusters", "unindexable", generation.CreateRequest{Column: "embedding"}, []string{"vector.query.nprobes", "200"}, storage.ErrRefused, "nprobes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := fixture(t, c.table)
			steps := testkit.Oracle(t, c.table)
			switch c.req.AsOf {
			case "first":
				c.req.AsOf = steps[0].Instants[0].Requested
			case "pending":
				c.req.AsOf = steps[len(steps)-1].Pending[0].Requested
			}
			c.req.Options = options(t, c.options...)
			before := st.Clone()
			_, err := create(t, st, c.req)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v", err)
			}
			if storage.Hint(err) == "" {
				t.Errorf("no next step: %v", err)
			}
			if !slices.Equal(before.Paths(), st.Paths()) {
				t.Error("a refusal wrote something")
			}
		})
	}
}

func TestCreateAsOfACleanedInstantNamesTheEarliest(t *testing.T) {
	t.Parallel()
	st := fixture(t, "mor_compaction_clean")
	steps := testkit.Oracle(t, "mor_compaction_clean")
	_, err := create(t, st, generation.CreateRequest{Column: "embedding", AsOf: steps[0].Instants[0].Requested})
	var gone *generation.UnreadableError
	if !errors.As(err, &gone) || gone.Earliest == "" {
		t.Fatalf("got %v", err)
	}
	// From there on it works, and the index holds the rows of that step.
	r, err := create(t, st, generation.CreateRequest{Column: "embedding", Name: "x", AsOf: gone.Earliest, Options: options(t, small...)})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		for _, i := range s.Instants {
			if i.Requested == r.Baseline.Requested {
				check(t, st, "x", s)
			}
		}
	}
}

// TestCreateAsOfAnArchivedInstant tells archived from never there.
func TestCreateAsOfAnArchivedInstant(t *testing.T) {
	t.Parallel()
	st := fixture(t, "archived")
	first := testkit.Oracle(t, "archived")[0].Instants[0]
	earliest, err := openTable(t, st).EarliestReadable(t.Context())
	if err != nil || earliest == "" {
		t.Fatal(earliest, err)
	}
	for _, at := range []string{first.Requested, first.Completion} {
		_, err := create(t, st, generation.CreateRequest{Column: "embedding", AsOf: at})
		var gone *generation.UnreadableError
		if !errors.As(err, &gone) || gone.Earliest != earliest || !strings.Contains(err.Error(), at+" is archived") || !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v", at, err)
		}
		if !strings.Contains(storage.Hint(err), earliest) {
			t.Errorf("%s: hint %q", at, storage.Hint(err))
		}
	}
	for _, at := range []string{"20010101000000000", first.Requested[:16] + "x", "99990101000000000"} {
		_, err := create(t, st, generation.CreateRequest{Column: "embedding", AsOf: at})
		var gone *generation.UnreadableError
		if errors.As(err, &gone) || !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// An instant that is not there is just that, also where the archive cannot be read.
func TestPlanAsOfInAnOldLayout(t *testing.T) {
	t.Parallel()
	_, err := generation.NewPlan(t.Context(), openTable(t, fixture(t, "v6")), generation.CreateRequest{Column: "embedding", Options: options(t), AsOf: "20010101000000000"})
	if !errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

// TestPlanBoundsRows takes what commits say they wrote for rows in logs, not what would fit.
func TestPlanBoundsRows(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mor_basic", "merge_event_time", "elements_mor", "nbcc_event_time", "v8", "pending"} {
		st := fixture(t, name)
		column := "embedding"
		if name == "elements_mor" {
			column = "e32"
		}
		p, err := generation.NewPlan(t.Context(), openTable(t, st), generation.CreateRequest{Column: column, Options: options(t)})
		if err != nil {
			t.Fatal(name, err)
		}
		steps := testkit.Oracle(t, name)
		if n := int64(len(steps[len(steps)-1].Rows)); p.Rows < n || p.Rows > 3*n {
			t.Errorf("%s: at most %d rows planned, there are %d", name, p.Rows, n)
		}
	}
}

// withoutMDT is a table whose metadata table was deleted.
func withoutMDT(t testing.TB, name string) *mem.Store {
	t.Helper()
	st := fixture(t, name)
	for _, p := range st.Paths() {
		if strings.HasPrefix(p, ".hoodie/metadata/") {
			if err := st.Delete(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	return st
}

func TestCreateWithoutAMetadataTable(t *testing.T) {
	t.Parallel()
	st := withoutMDT(t, "cow_basic")
	before := st.Paths()
	_, err := create(t, st, generation.CreateRequest{Column: "embedding", Options: options(t)})
	if !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) == "" || !slices.Equal(before, st.Paths()) {
		t.Errorf("got %v, hint %q", err, storage.Hint(err))
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	st := fixture(t, "cow_basic")
	mustCreate(t, st, generation.CreateRequest{Column: "embedding", Name: "x", Options: options(t, small...)})
	state, _, err := mdt.ReadState(t.Context(), mdt.Inside(st))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(x *mdt.Index)
		kind   error
	}{
		"no active generation": {func(x *mdt.Index) { x.Generations[0].State = mdt.GenBuilding }, storage.ErrNotFound},
		"another number":       {func(x *mdt.Index) { x.Generations[0].Number = 2 }, storage.ErrCorrupt},
		"another dimension":    {func(x *mdt.Index) { x.Dim = 9 }, storage.ErrCorrupt},
		"another column":       {func(x *mdt.Index) { x.Column = "other" }, storage.ErrCorrupt},
		"other options":        {func(x *mdt.Index) { x.Options["vector.rabitq.bits"] = "5" }, storage.ErrCorrupt},
		"unknown options":      {func(x *mdt.Index) { x.Options["vector.new"] = "5" }, storage.ErrCorrupt},
	} {
		broken := state.Clone()
		c.change(broken.Indexes["x"])
		view, err := mdt.OpenView(t.Context(), mdt.Inside(st), state, "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := generation.Load(t.Context(), view, broken.Indexes["x"]); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
