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
	"sync"
	"testing"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/timeline"
)

// unpacked holds the fixture tables that were used, by name.
var unpacked sync.Map

// load puts a fixture table into memory. Each caller has a store of its own.
func load(t testing.TB, name string) *mem.Store {
	t.Helper()
	once, _ := unpacked.LoadOrStore(name, sync.OnceValues(func() (*mem.Store, error) {
		return mem.FromDir(name, testkit.Table(t, name))
	}))
	st, err := once.(func() (*mem.Store, error))()
	if err != nil {
		t.Fatal(err)
	}
	return st.Clone()
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

// asOf says for which tables the oracle's lines but the last are time-travel reads by requested time.
func asOf(name string) bool { return name == "javaclient_mor" }

// inOrder says whether the instants requested up to that time are also the first ones to complete: then a time-travel read is
// a snapshot in completion order.
func inOrder(tl *timeline.Timeline, requested string) bool {
	last, after := "", false
	for _, w := range tl.Writes() {
		if w.Requested > requested {
			after = true
			continue
		}
		if after {
			return false
		}
		last = w.Completed
	}
	return last != ""
}

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
				case asOf(name) && i < len(steps)-1 && !inOrder(tab.Timeline, lastRequested(step)):
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

func lastRequested(s testkit.Step) string {
	last := ""
	for _, inst := range s.Instants {
		last = max(last, inst.Requested)
	}
	return last
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
