package table_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/timeline"
)

// load puts a fixture table into memory.
func load(t testing.TB, name string) *mem.Store {
	t.Helper()
	st, err := mem.FromDir(name, testkit.Table(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func open(t testing.TB, st storage.Store) *table.Table {
	t.Helper()
	tab, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// fixtureNames returns the tables that have an oracle and are not of version 6.
func fixtureNames(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(testkit.Path("tables"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".expected.jsonl.gz"); ok && !strings.HasPrefix(name, "v6") && !strings.HasPrefix(name, "flink_v6") {
			out = append(out, name)
		}
	}
	if len(out) < 40 {
		t.Fatalf("only %d fixture tables", len(out))
	}
	return out
}

// got is a row with the group it came from.
type got struct {
	table.Row
	fileID string
}

// snapshot reads all rows at a cut, sorted like the oracle.
func snapshot(t testing.TB, tab *table.Table, files *table.Files, cut table.Cut, c table.Columns) ([]got, error) {
	t.Helper()
	var rows []got
	for s, err := range files.Slices(cut) {
		if err != nil {
			return nil, err
		}
		if s.Ignored > 0 {
			t.Errorf("%s: %d files ignored", s.Group, s.Ignored)
		}
		if err := tab.ReadMerged(t.Context(), s, c, func(r table.Row) error {
			rows = append(rows, got{r, s.FileID})
			return nil
		}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(rows, func(a, b got) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Key, b.Key), cmp.Compare(a.fileID, b.fileID))
	})
	return rows, nil
}

// asOf says for which tables the oracle's lines but the last are time-travel reads by requested time, which is no snapshot in
// completion order.
func asOf(name string) bool { return name == "javaclient_mor" }

// Every fixture table at every step from its earliest readable one on shows the rows that Spark saw.
func TestOracle(t *testing.T) {
	t.Parallel()
	for _, name := range fixtureNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tab := open(t, load(t, name))
			files, err := tab.Files(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			earliest, err := files.EarliestReadable()
			if err != nil {
				t.Fatal(err)
			}
			first, ok := tab.Timeline.CompletionOf(earliest)
			if !ok {
				t.Fatalf("earliest readable %q is not on the timeline", earliest)
			}
			c := columnsOf(tab)
			steps := testkit.Oracle(t, name)
			checked, upto, skipped := 0, "", map[string]int{}
			for i, step := range steps {
				undone := false
				for _, inst := range step.Instants {
					upto = max(upto, inst.Completion)
					_, known := tab.Timeline.IsCompleted(inst.Requested)
					undone = undone || !known && timeline.Action(inst.Action).IsWrite()
				}
				switch {
				case undone:
					skipped["restored away"]++
					continue
				case asOf(name) && i < len(steps)-1:
					skipped["by requested time"]++
					continue
				case upto < first:
					skipped["before the earliest readable"]++
					if _, err := snapshot(t, tab, files, table.Cut{Upto: upto}, c); !errors.Is(err, storage.ErrNotFound) {
						t.Errorf("step %d lies before the earliest readable: %v", step.Step, err)
					}
					continue
				}
				rows, err := snapshot(t, tab, files, table.Cut{Upto: upto}, c)
				if err != nil {
					t.Errorf("step %d (%s): %v", step.Step, step.Op, err)
					continue
				}
				compareRows(t, step, rows, c, tab.Schema)
				checked++
				if i == len(steps)-1 { // the newest snapshot needs no bound
					rows, err := snapshot(t, tab, files, table.Cut{}, c)
					if err != nil {
						t.Fatal(err)
					}
					compareRows(t, step, rows, c, tab.Schema)
				}
			}
			if checked == 0 {
				t.Error("no step checked")
			}
			t.Logf("%d of %d steps checked, skipped %v", checked, len(steps), skipped)
		})
	}
}

// columnsOf asks for all vectors and all columns of simple types.
func columnsOf(tab *table.Table) table.Columns {
	var c table.Columns
	for _, f := range tab.Schema.Fields() {
		switch {
		case f.Vector != nil:
			c.Vectors = append(c.Vectors, f.Name)
		case f.Logical == "" && slices.Contains([]avrox.FieldType{avrox.String, avrox.Int, avrox.Long, avrox.Float, avrox.Double, avrox.Boolean}, f.Type):
			c.Others = append(c.Others, f.Name)
		}
	}
	return c
}

func compareRows(t *testing.T, step testkit.Step, rows []got, c table.Columns, schema *avrox.Schema) {
	t.Helper()
	want := slices.Clone(step.Rows)
	slices.SortStableFunc(want, func(a, b testkit.Row) int {
		x := cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Key, b.Key))
		if x == 0 && a.FileID != nil && b.FileID != nil {
			x = cmp.Compare(*a.FileID, *b.FileID)
		}
		return x
	})
	bad := 0
	report := func(format string, args ...any) {
		if bad++; bad < 6 {
			t.Errorf("step %d (%s): %s", step.Step, step.Op, fmt.Sprintf(format, args...))
		}
	}
	if len(rows) != len(want) {
		report("%d rows, want %d", len(rows), len(want))
	}
	for i := range min(len(rows), len(want)) {
		g, w := rows[i], want[i]
		if g.Key != w.Key || g.Partition != w.Partition {
			report("row %d: (%s, %q), want (%s, %q)", i, g.Partition, g.Key, w.Partition, w.Key)
			continue
		}
		if w.FileID != nil && g.fileID != *w.FileID {
			report("%q: file id %s, want %s", g.Key, g.fileID, *w.FileID)
		}
		if w.CommitTime != nil && g.CommitTime != *w.CommitTime {
			report("%q: commit time %s, want %s", g.Key, g.CommitTime, *w.CommitTime)
		}
		for j, column := range c.Vectors {
			v := w.Vector(column)
			if (v == nil) != (g.Vectors[j] == nil) || string(v) != string(g.Vectors[j]) {
				report("%q: %s is %x, want %x", g.Key, column, g.Vectors[j], v)
			}
		}
		for j, column := range c.Others {
			raw, ok := w.Attrs[column]
			if !ok {
				continue // the column does not exist yet
			}
			if !sameAttr(raw, g.Others[j]) {
				report("%q: %s is %v, want %s", g.Key, column, g.Others[j], raw)
			}
		}
	}
}

func sameAttr(raw json.RawMessage, v any) bool {
	var want any
	if json.Unmarshal(raw, &want) != nil {
		return false
	}
	switch x := v.(type) {
	case int64:
		return want == float64(x)
	case float64:
		w, ok := want.(float64)
		return ok && math.Abs(w-x) <= 1e-6*math.Abs(w)
	}
	return want == v
}
