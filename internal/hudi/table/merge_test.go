package table_test

import (
	"errors"
	"strings"
	"testing"

	"tidemark/internal/storage"

	"tidemark/internal/hudi/table"
)

// Each row is a history of key k: an optional base row, then one log file per step, merged by the mode.
func TestMergeRules(t *testing.T) {
	t.Parallel()
	const event, commit = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
	put := func(ts any, v float32) func(int) []byte {
		return func(n int) []byte { return data(n, val{key: "k", ts: ts, v: v}) }
	}
	soft := func(ts any) func(int) []byte {
		return func(n int) []byte { return data(n, val{key: "k", ts: ts, v: 9, del: true}) }
	}
	opDelete := func(n int) []byte { return deletes(n, del("k")) }
	ordDelete := func(ts int64) func(int) []byte {
		return func(n int) []byte { return deletes(n, delTS("k", ts)) }
	}
	set := func(ts any, price float64) func(int) []byte {
		return func(n int) []byte { return partial(n, "k", ts, price) }
	}
	base := func(ts any) *val { return &val{key: "k", ts: ts, v: 1, price: 1.5} }
	type steps []func(int) []byte
	tests := []struct {
		name string
		mode string
		base *val
		logs steps
		want string
		kind error
	}{
		{"base alone", event, base(100), nil, "k=1/1.5@0", nil},
		{"log alone", event, nil, steps{put(5, 2)}, "k=2/<nil>@-1", nil},
		{"lower log loses to the base, position is gone all the same", event, base(100), steps{put(90, 2)}, "k=1/1.5@-1", nil},
		{"equal log wins over the base", event, base(100), steps{put(100, 2)}, "k=2/<nil>@-1", nil},
		{"higher log wins", event, base(100), steps{put(110, 2)}, "k=2/<nil>@-1", nil},
		{"higher then lower log", event, base(100), steps{put(110, 2), put(105, 3)}, "k=2/<nil>@-1", nil},
		{"equal logs: the later wins", event, base(100), steps{put(110, 2), put(110, 3)}, "k=3/<nil>@-1", nil},
		{"soft delete below the base", event, base(100), steps{soft(95)}, "k=1/1.5@-1", nil},
		{"soft delete equal to the base", event, base(100), steps{soft(100)}, "", nil},
		{"soft delete, then lower", event, base(100), steps{soft(130), put(120, 2)}, "", nil},
		{"soft delete, then equal", event, base(100), steps{soft(130), put(130, 2)}, "k=2/<nil>@-1", nil},
		{"soft delete, then higher", event, base(100), steps{soft(130), put(140, 2)}, "k=2/<nil>@-1", nil},
		{"delete with ordering above", event, base(100), steps{ordDelete(130)}, "", nil},
		{"delete with ordering below", event, base(100), steps{ordDelete(95)}, "k=1/1.5@-1", nil},
		{"delete with ordering equal to the base", event, base(100), steps{ordDelete(100)}, "", nil},
		{"delete with ordering equal to a log", event, nil, steps{put(100, 2), ordDelete(100)}, "", nil},
		{"delete with ordering below a log", event, nil, steps{put(100, 2), ordDelete(99)}, "k=2/<nil>@-1", nil},
		{"delete with ordering, then equal data", event, nil, steps{ordDelete(100), put(100, 2)}, "k=2/<nil>@-1", nil},
		{"delete with ordering, then lower data", event, nil, steps{ordDelete(100), put(99, 2)}, "", nil},
		{"delete without ordering", event, base(100), steps{opDelete}, "", nil},
		{"delete without ordering after a log", event, base(100), steps{put(500, 2), opDelete}, "", nil},
		{"delete without ordering, then lower: the old base row is back", event, base(100), steps{opDelete, put(60, 2)}, "k=1/1.5@-1", nil},
		{"delete without ordering, then higher", event, base(100), steps{opDelete, put(160, 2)}, "k=2/<nil>@-1", nil},
		{"delete without ordering, then a real one: the first stays", event, base(100), steps{opDelete, ordDelete(50)}, "", nil},
		{"real delete, then one without ordering, then lower data", event, nil, steps{ordDelete(500), opDelete, put(10, 2)}, "k=2/<nil>@-1", nil},
		{"two real deletes: the higher stays", event, nil, steps{ordDelete(200), ordDelete(100), put(150, 2)}, "", nil},
		{"two real deletes, rising", event, nil, steps{ordDelete(100), ordDelete(200), put(150, 2)}, "", nil},
		{"data, delete, data, delete", event, nil, steps{put(1, 2), ordDelete(2), put(3, 3), ordDelete(4)}, "", nil},
		{"a null ordering where the other is real", event, base(100), steps{put(nil, 2)}, "", storage.ErrUnsupported},
		{"null orderings on both sides: the later wins", event, base(nil), steps{put(nil, 2)}, "k=2/<nil>@-1", nil},
		{"null ordering and nothing to compare with", event, nil, steps{put(nil, 2)}, "k=2/<nil>@-1", nil},
		{"real delete of a row with null ordering", event, base(nil), steps{ordDelete(5)}, "", storage.ErrUnsupported},
		{"real delete of a log with null ordering", event, nil, steps{put(nil, 2), ordDelete(5)}, "", nil},
		{"delete without ordering of a row with null ordering", event, base(nil), steps{opDelete}, "", nil},
		{"soft delete without ordering", event, base(100), steps{soft(nil)}, "", nil},
		{"delete without ordering, then a marked row, then lower data", event, nil, steps{opDelete, soft(50), put(10, 2)}, "", nil},
		{"marked row, then a delete without ordering, then lower data", event, nil, steps{soft(50), opDelete, put(10, 2)}, "k=2/<nil>@-1", nil},

		{"commit time: lower ordering wins too", commit, base(100), steps{put(1, 2)}, "k=2/<nil>@-1", nil},
		{"commit time: last log wins", commit, base(100), steps{put(9, 2), put(1, 3)}, "k=3/<nil>@-1", nil},
		{"commit time: delete with a low ordering", commit, base(100), steps{ordDelete(1)}, "", nil},
		{"commit time: delete, then insert", commit, base(100), steps{opDelete, put(1, 2)}, "k=2/<nil>@-1", nil},
		{"commit time: insert, then delete", commit, nil, steps{put(1, 2), opDelete}, "", nil},
		{"commit time: soft delete", commit, base(100), steps{soft(1)}, "", nil},
		{"commit time: null ordering", commit, base(nil), steps{put(nil, 2)}, "k=2/<nil>@-1", nil},

		{"partial keeps the vector of the base", event, base(100), steps{set(110, 7)}, "k=1/7@-1", nil},
		{"partial keeps the vector of a log", event, base(100), steps{put(110, 2), set(120, 7)}, "k=2/7@-1", nil},
		{"late partial changes nothing that is set", event, base(100), steps{set(90, 7)}, "k=1/1.5@-1", nil},
		{"two partials", event, base(100), steps{set(110, 7), set(120, 8)}, "k=1/8@-1", nil},
		{"late second partial", event, base(100), steps{set(120, 7), set(110, 8)}, "k=1/7@-1", nil},
		{"partial, then a whole row", event, base(100), steps{set(110, 7), put(120, 2)}, "k=2/<nil>@-1", nil},
		{"partial without ordering", event, base(100), steps{set(nil, 7)}, "", storage.ErrUnsupported},
		{"partial without ordering on a log", event, base(100), steps{put(110, 2), set(nil, 7)}, "", storage.ErrUnsupported},
		{"partial over a delete that lost", event, base(100), steps{ordDelete(50), set(110, 7)}, "k=1/7@-1", nil},
		{"partial over a marked row that lost", event, base(100), steps{soft(50), set(110, 7), set(120, 8)}, "k=1/8@-1", nil},
		{"late partial over a later delete that lost", event, base(100), steps{ordDelete(50), set(40, 7)}, "k=1/1.5@-1", nil},
		{"partial over a delete that lost, itself late", event, base(100), steps{ordDelete(50), set(70, 7)}, "k=1/1.5@-1", nil},
		{"partial of a deleted row, lower", event, base(100), steps{ordDelete(130), set(120, 7)}, "", nil},
		{"partial over a delete without ordering: the old base row is back", event, base(100), steps{opDelete, set(110, 7)}, "k=1/7@-1", nil},
		{"partial over data over a delete without ordering", event, base(100), steps{opDelete, put(60, 2), set(110, 7)}, "k=2/7@-1", nil},
		{"partial over a delete, nothing below", event, nil, steps{ordDelete(50), set(110, 7)}, "", storage.ErrCorrupt},
		{"partial without an older version", event, nil, steps{set(110, 7)}, "", storage.ErrCorrupt},
		{"commit time: partial", commit, base(100), steps{set(1, 7)}, "k=1/7@-1", nil},
		{"commit time: partial on a log", commit, nil, steps{put(5, 2), set(1, 7)}, "k=2/7@-1", nil},
		{"commit time: partial of a deleted row", commit, base(100), steps{opDelete, set(110, 7)}, "", storage.ErrUnsupported},
		{"commit time: partial, then delete", commit, base(1), steps{set(1, 7), opDelete}, "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]string{"hoodie.record.merge.mode": test.mode})
			if test.base != nil {
				w.commit("commit", 1, 2, nil, w.base(1, *test.base))
			}
			for i, block := range test.logs {
				n := 10 * (i + 1)
				w.commit("deltacommit", n, n+1, nil, w.log(n, block(n)))
			}
			got, err := w.show(table.Cut{})
			if test.kind != nil {
				if !errors.Is(err, test.kind) {
					t.Fatalf("got %q %v, want %v", got, err, test.kind)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("got %q %v, want %q", got, err, test.want)
			}
		})
	}
}

// Rows that mark themselves as deleted, in logs, and in base files (bulk insert), where the mark means nothing.
func TestDeleteMarkers(t *testing.T) {
	t.Parallel()
	props := map[string]string{"hoodie.record.merge.property.hoodie.payload.delete.field": "op", "hoodie.record.merge.property.hoodie.payload.delete.marker": "D"}
	for _, test := range []struct {
		name  string
		props map[string]string
		row   val
		want  string
	}{
		{"_hoodie_is_deleted", nil, val{key: "k", ts: 5, v: 2, del: true}, ""},
		{"configured column", props, val{key: "k", ts: 5, v: 2, op: "D"}, ""},
		{"configured column, other value", props, val{key: "k", ts: 5, v: 2, op: "U"}, "k=2/<nil>"},
		{"column not configured", nil, val{key: "k", ts: 5, v: 2, op: "D"}, "k=2/<nil>"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, where := range []string{"log", "base", "base under a late log", "log on base"} {
				w := newWorld(t, test.props)
				position, want := "@-1", test.want
				switch where {
				case "base":
					w.commit("commit", 1, 2, nil, w.base(1, test.row))
					position, want = "@0", "k=2/<nil>"
				case "base under a late log":
					w.commit("commit", 1, 2, nil, w.base(1, test.row))
					w.commit("deltacommit", 10, 11, nil, w.log(10, data(10, val{key: "k", ts: 4, v: 3})))
					want = "k=2/<nil>"
				case "log on base":
					w.commit("commit", 1, 2, nil, w.base(1, val{key: "k", ts: 1, v: 1}))
					fallthrough
				default:
					w.commit("deltacommit", 10, 11, nil, w.log(10, data(10, test.row)))
				}
				if want != "" {
					want += position
				}
				if got, err := w.show(table.Cut{}); err != nil || got != want {
					t.Errorf("%s: got %q %v, want %q", where, got, err, want)
				}
			}
		})
	}
}

// A key twice in a base file: the first copy is merged, the second handed on; with the key in a log neither has a position.
func TestDuplicatesInBase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit("commit", 1, 2, nil, w.base(1, val{key: "a", ts: 1, v: 1}, val{key: "b", ts: 1, v: 2}, val{key: "a", ts: 1, v: 3}))
	if got, err := w.show(table.Cut{}); err != nil || got != "a=1/<nil>@0 b=2/<nil>@1 a=3/<nil>@2" {
		t.Errorf("got %q %v", got, err)
	}
	w.commit("deltacommit", 10, 11, nil, w.log(10, data(10, val{key: "a", ts: 5, v: 9})))
	if got, err := w.show(table.Cut{}); err != nil || got != "a=9/<nil>@-1 b=2/<nil>@1 a=3/<nil>@-1" {
		t.Errorf("got %q %v", got, err)
	}
}

func TestMergersThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, props := range []map[string]string{
		{"hoodie.record.merge.mode": "CUSTOM"},
		{"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
		{"hoodie.table.partial.update.mode": "IGNORE_MARKERS"},
	} {
		w := newWorld(t, props)
		w.commit("commit", 1, 2, nil, w.base(1, val{key: "k", ts: 1, v: 1}))
		w.commit("deltacommit", 10, 11, nil, w.log(10, data(10, val{key: "k", ts: 2, v: 2})))
		got, err := w.show(table.Cut{})
		if !errors.Is(err, storage.ErrUnsupported) {
			t.Errorf("%v: got %q %v", props, got, err)
		}
		for _, name := range props {
			if err != nil && !contains(err, name) {
				t.Errorf("%v: %v does not name it", props, err)
			}
		}
	}
}

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }
