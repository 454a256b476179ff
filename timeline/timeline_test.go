package timeline_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"

	godiff "github.com/google/go-cmp/cmp"
)

// line builds a table of that layout whose timeline holds the files, and loads it.
func line(t testing.TB, layout int, names ...string) *timeline.Timeline {
	t.Helper()
	_, p, st := lineStore(t, layout, names...)
	tl, err := timeline.Load(t.Context(), st, dotHoodie, p)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

func lineStore(t testing.TB, layout int, names ...string) (string, *timeline.Properties, *mem.Store) {
	t.Helper()
	props, dir := v9, ".hoodie/timeline/"
	if layout == 1 {
		props, dir = strings.Replace(v9, "version=9", "version=6", 1), ".hoodie/"
	}
	p := mustLoad(t, props+"hoodie.table.timeline.timezone=UTC\n")
	st := files(t, map[string]string{dir + ".keep": ""})
	for _, n := range names {
		if _, err := st.Create(t.Context(), dir+n, nil); err != nil {
			t.Fatal(err)
		}
	}
	return dir, p, st
}

func show(instants []timeline.Instant) []string {
	var out []string
	for _, i := range instants {
		s := fmt.Sprintf("%s %s %s %s", i.Requested, i.Completed, i.Action, i.State)
		if i.Pending != "" && i.Pending != i.Action {
			s += " was " + string(i.Pending)
		}
		out = append(out, s)
	}
	return out
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := godiff.Diff(want, got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, diff)
	}
}

func TestNamesOfLayout2(t *testing.T) {
	t.Parallel()
	tl := line(t, 2,
		"20260101000000103.commit.requested", "20260101000000103.inflight", "20260101000000103_20260101000000108.commit",
		"20260101000000104.deltacommit.requested", "20260101000000104.deltacommit.inflight",
		"20260101000000105.compaction.requested", "20260101000000105.compaction.inflight", "20260101000000105_20260101000000107.commit",
		"20260101000000106.clustering.requested",
		"20260101000000109.clustering.requested", "20260101000000109.clustering.inflight", "20260101000000109_20260101000000110.replacecommit",
		"20260101000000111.logcompaction.requested", "20260101000000111_20260101000000112.deltacommit",
		"20260101000000113.inflight",
		"20260101000000103.savepoint.inflight", "20260101000000103_20260101000000114.savepoint",
		"20260101000000115.rollback.requested",
		// not instants:
		"history", ".20260101000000116_20260101000000117.commit.crc", "._20260101000000116_20260101000000117.commit",
		"20260101000000116_20260101000000117.commit.tmp", "20260101000000116_20260101000000117.commit.requested", "x.commit",
		"20260101000000118.", "20260101000000118.requested",
		"hoodie.properties", "20260101000000119.COMMIT", "20260101000000120_20260101000000121_20260101000000122.commit", "20260101000000123.commit.inflight.tmp",
	)
	equal(t, "instants", []string{
		"20260101000000105 20260101000000107 commit completed was compaction",
		"20260101000000103 20260101000000108 commit completed",
		"20260101000000109 20260101000000110 replacecommit completed was clustering",
		"20260101000000111 20260101000000112 deltacommit completed was logcompaction",
		"20260101000000103 20260101000000114 savepoint completed",
		"20260101000000104  deltacommit inflight",
		"20260101000000106  clustering requested",
		"20260101000000113  commit inflight",
		"20260101000000115  rollback requested",
	}, show(tl.Instants()))
	equal(t, "writes", []string{
		"20260101000000105 20260101000000107 commit completed was compaction",
		"20260101000000103 20260101000000108 commit completed",
		"20260101000000109 20260101000000110 replacecommit completed was clustering",
		"20260101000000111 20260101000000112 deltacommit completed was logcompaction",
	}, show(tl.Writes()))
	equal(t, "pending", 4, len(tl.Pending()))
	equal(t, "savepoints", []string{"20260101000000103 20260101000000114 savepoint completed"}, show(tl.CompletedOf(timeline.Savepoint)))
	if i, _ := tl.Find("20260101000000105"); i.File != "20260101000000105_20260101000000107.commit" || i.Plan != "20260101000000105.compaction.requested" {
		t.Errorf("compaction has file %s and plan %s", i.File, i.Plan)
	}
}

// The same history in both layouts is the same list of instants; only completion times come from elsewhere (O-TL-04).
func TestLayoutsAgree(t *testing.T) {
	t.Parallel()
	one := line(t, 1, "20260101000000001.commit.requested", "20260101000000001.inflight", "20260101000000001.commit",
		"20260101000000002.deltacommit.requested", "20260101000000002.deltacommit.inflight", "20260101000000002.deltacommit",
		"20260101000000003.compaction.requested", "20260101000000003.compaction.inflight", "20260101000000003.commit",
		"20260101000000004.replacecommit.requested", "20260101000000004.replacecommit.inflight",
		"20260101000000005.inflight", "hoodie.properties.backup", "20260101000000006.clean")
	two := line(t, 2, "20260101000000001.commit.requested", "20260101000000001.inflight", "20260101000000001_20260101000000011.commit",
		"20260101000000002.deltacommit.requested", "20260101000000002.deltacommit.inflight", "20260101000000002_20260101000000012.deltacommit",
		"20260101000000003.compaction.requested", "20260101000000003.compaction.inflight", "20260101000000003_20260101000000013.commit",
		"20260101000000004.clustering.requested", "20260101000000004.clustering.inflight",
		"20260101000000005.inflight", "20260101000000006_20260101000000016.clean")
	type plain struct {
		requested string
		action    timeline.Action
		state     timeline.State
	}
	strip := func(tl *timeline.Timeline) (out []plain) {
		for _, i := range tl.Instants() {
			out = append(out, plain{i.Requested, i.Action.Completes(), i.State})
		}
		slices.SortFunc(out, func(a, b plain) int { return strings.Compare(a.requested, b.requested) })
		return out
	}
	if diff := godiff.Diff(strip(two), strip(one), godiff.AllowUnexported(plain{})); diff != "" {
		t.Errorf("layouts differ (-2 +1):\n%s", diff)
	}
}

// Completion times of layout 1, and of what an upgrade left behind, are modification times in the table's zone.
func TestDerivedCompletionTimes(t *testing.T) {
	t.Parallel()
	dir, p, st := lineStore(t, 1)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	st.SetClock(func() time.Time { return at })
	if _, err := st.Create(t.Context(), dir+"20260102040404000.commit", nil); err != nil {
		t.Fatal(err)
	}
	for zone, want := range map[string]string{"UTC": "20260102030405678", "LOCAL": "20260102040405678"} {
		p.Zone = zone
		tl, err := timeline.Load(t.Context(), st, dotHoodie, p)
		if err != nil {
			t.Fatal(err)
		}
		if i := tl.Instants()[0]; i.Completed != want || !i.Derived {
			t.Errorf("zone %s: completed %s, derived %v, want %s", zone, i.Completed, i.Derived, want)
		}
	}
	left := line(t, 2, "20200101000000001.commit", "20200101000000001_20200101000000002.commit")
	if i := left.Instants()[0]; i.Completed != "20200101000000002" || i.Derived {
		t.Errorf("two completed files: %+v", i)
	}
}

// A time that no writer can have taken is neither followed nor passed over: both could hide a commit.
func TestImpossibleTimes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"99999999999999999.commit", "99999999999999999_20260101000000000.commit", "20260101000000000_99999999999999999.deltacommit", "20261301000000000.inflight",
		"99991231235959999_99991231235959999.commit", "22620101000000000.clean.requested", "19691231235959.commit", "20260101.commit", "202601010000001.commit",
	} {
		st := files(t, map[string]string{".hoodie/timeline/20260101000000000_20260101000000001.commit": "", ".hoodie/timeline/" + name: ""})
		_, err := timeline.Load(t.Context(), st, dotHoodie, &timeline.Properties{Version: 9, Layout: 2, Zone: "UTC", TimelinePath: "timeline"})
		if !errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrUnsupported) || !strings.Contains(err.Error(), name) || storage.Hint(err) == "" {
			t.Errorf("%s: %v, hint %q", name, err, storage.Hint(err))
		}
	}
	tl := line(t, 2, "20260101000000_20260101000001.commit", "22611231235959999_22611231235959999.commit", "19700101000000000.clean.requested",
		"00000000000000_20260101000000000.deltacommit", "00000000000001.commit.requested", "00000000000000002_20260101000000000.deltacommit",
		"20260101000000000001.deltacommit", "123.json", "99999999999999999.note")
	if n := len(tl.Instants()); n != 7 {
		t.Errorf("%d instants, want 7: %v", n, show(tl.Instants()))
	}
}

// Nothing relies on completion order agreeing with requested order (O-TL-05, O-TL-08).
func TestCompletionOrderDecides(t *testing.T) {
	t.Parallel()
	equal(t, "writes", []string{
		"20260101000000103 20260101000000104 commit completed",
		"20260101000000102 20260101000000105 commit completed",
		"20260101000000101 20260101000000106 commit completed",
		"20260101000000100 20260101000000107 deltacommit completed",
		"20260101000000100 20260101000000107 replacecommit completed",
	}, show(line(t, 2, "20260101000000101_20260101000000106.commit", "20260101000000102_20260101000000105.commit",
		"20260101000000103_20260101000000104.commit", "20260101000000100_20260101000000107.deltacommit",
		"20260101000000100_20260101000000107.replacecommit").Writes()))
}

// Instants of 14 and 17 digits are compared as texts, as Hudi does (O-TL-07).
func TestBothPrecisions(t *testing.T) {
	t.Parallel()
	tl := line(t, 2, "20200101000000_20200101000001.commit", "20200101000000500_20200101000000900.commit", "20200101000001000_20200101000001001.commit")
	equal(t, "writes", []string{
		"20200101000000500 20200101000000900 commit completed",
		"20200101000000 20200101000001 commit completed",
		"20200101000001000 20200101000001001 commit completed",
	}, show(tl.Writes()))
	equal(t, "earliest", "20200101000000", tl.Earliest())
}

func TestEarliestAndIsCompleted(t *testing.T) {
	t.Parallel()
	// Commits 103 and 105 are kept by savepoints while 104 and 106 are archived (O-TL-10); cleans do not count.
	tl := line(t, 2, "20260101000000102_20260101000000102.clean", "20260101000000103_20260101000000113.commit",
		"20260101000000103_20260101000000123.savepoint", "20260101000000105_20260101000000115.commit",
		"20260101000000105_20260101000000125.savepoint",
		"20260101000000107.deltacommit.requested", "20260101000000108_20260101000000118.commit", "20260101000000109.compaction.requested")
	equal(t, "earliest", "20260101000000107", tl.Earliest())
	for _, tt := range []struct {
		requested, completed string
		ok                   bool
	}{
		{"20260101000000103", "20260101000000113", true}, // active, not the savepoint's completion
		{"20260101000000104", "", true},                  // archived
		{"20260101000000107", "", false},                 // pending
		{"20260101000000108", "20260101000000118", true},
		{"20260101000000109", "", false}, // pending compaction
		{"20260101000000110", "", false}, // unknown and not older than the active timeline
		{"20260101000000118", "", false}, // a completion time is no requested time
	} {
		completed, ok := tl.IsCompleted(tt.requested)
		if completed != tt.completed || ok != tt.ok {
			t.Errorf("%s: got %q %v, want %q %v", tt.requested, completed, ok, tt.completed, tt.ok)
		}
	}
	empty := line(t, 2)
	if _, ok := empty.IsCompleted("20260101000000100"); ok || empty.Earliest() != "" {
		t.Error("an empty timeline knows of a completed instant")
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	tl := line(t, 2, "20260101000000100_20260101000000104.commit", "20260101000000100_20260101000000109.savepoint",
		"20260101000000104.deltacommit.inflight", "20260101000000101_20260101000000105.commit")
	for at, want := range map[string]string{"20260101000000100": "20260101000000100_20260101000000104.commit",
		"20260101000000104": "20260101000000104.deltacommit.inflight",
		"20260101000000105": "20260101000000101_20260101000000105.commit",
		"20260101000000109": "20260101000000100_20260101000000109.savepoint"} {
		if got, ok := tl.Find(at); got.File != want || !ok {
			t.Errorf("%s: got %s, want %s", at, got.File, want)
		}
	}
	if _, ok := tl.Find("99"); ok {
		t.Error("found an instant that is not there")
	}
	if c, ok := tl.CompletionOf("20260101000000100"); c != "20260101000000104" || !ok {
		t.Errorf("completion of 20260101000000100: %s %v", c, ok)
	}
	if _, ok := tl.CompletionOf("20260101000000104"); ok {
		t.Error("a pending instant has a completion time")
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	a := line(t, 2, "20260101000000100_20260101000000104.commit", "20260101000000105.deltacommit.inflight")
	if !a.Equal(line(t, 2, "20260101000000100_20260101000000104.commit", "20260101000000105.deltacommit.inflight")) {
		t.Error("equal timelines differ")
	}
	if a.Equal(line(t, 2, "20260101000000100_20260101000000104.commit",
		"20260101000000105_20260101000000106.deltacommit")) || a.Equal(line(t, 2, "20260101000000100_20260101000000104.commit")) {
		t.Error("different timelines are equal")
	}
}

func TestUnreadableTimelines(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, v9)
	_, err := timeline.Load(t.Context(), files(t, nil), dotHoodie, p)
	if !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) == "" {
		t.Errorf("no timeline folder: %v", err)
	}
	p.Layout = 3
	if _, err = timeline.Load(t.Context(), files(t, nil), dotHoodie, p); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("layout 3: %v", err)
	}
}

func TestAddMillis(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		t    string
		n    int
		want string
	}{
		{"20261130022812204", 1, "20261130022812205"},
		{"20261130022859999", 1, "20261130022900000"},
		{"20261231235959999", 1, "20270101000000000"},
		{"20240228235959999", 1, "20240229000000000"},
		{"20260101000000000", -1, "20251231235959999"},
		{"20260329020000000", 1800_000, "20260329023000000"}, // summer time begins: texts know nothing of it
		{"20261130022812", 1, "20261130022813000"},           // 14 digits stand for the end of their second
	} {
		got, err := timeline.AddMillis(tt.t, tt.n)
		if got != tt.want || err != nil {
			t.Errorf("%s + %d: got %s, %v, want %s", tt.t, tt.n, got, err, tt.want)
		}
	}
	for _, bad := range []string{"", "2026", "2026113002281220x", "20261330022812204", "00000000000000001", "99991231235959999", "20261130022812204001", "-0261130022812204"} {
		if got, err := timeline.AddMillis(bad, 1); !errors.Is(err, storage.ErrUnsupported) {
			t.Errorf("%q: got %q, %v", bad, got, err)
		}
	}
}

func TestInstantTime(t *testing.T) {
	t.Parallel()
	got, err := timeline.InstantTime("20261130022812204", time.FixedZone("", -5*3600))
	if want := time.Date(2026, 11, 30, 7, 28, 12, 204e6, time.UTC); err != nil || !got.Equal(want) {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	got, err = timeline.InstantTime("20261130022812204001", time.UTC)
	if want := time.Date(2026, 11, 30, 2, 28, 12, 204e6, time.UTC); err != nil || !got.Equal(want) {
		t.Errorf("with a suffix: got %s, %v, want %s", got, err, want)
	}
}

// The zone of LOCAL tables comes from the newest instant and its file's time (O-TL-06).
func TestZoneOffset(t *testing.T) {
	t.Parallel()
	written := time.Date(2026, 11, 30, 3, 18, 32, 400e6, time.UTC)
	for _, tt := range []struct {
		name, completed string
		want            time.Duration
		known           bool
	}{
		{"five hours behind", "20261129221832352", -5 * time.Hour, true},
		{"Kathmandu", "20261130090332352", 5*time.Hour + 45*time.Minute, true},
		{"UTC, file written six minutes late", "20261130031232352", 0, true},
		{"copied a day later", "20261129031832352", 0, false},
		{"no calendar time", "00000000000000001", 0, false},
	} {
		got, known := timeline.ZoneOffset(timeline.Instant{Requested: "1", Completed: tt.completed, ModTime: written})
		if got != tt.want || known != tt.known {
			t.Errorf("%s: got %s %v, want %s %v", tt.name, got, known, tt.want, tt.known)
		}
	}
	if _, known := timeline.ZoneOffset(timeline.Instant{Completed: "20261129221832352"}); known {
		t.Error("no modification time gives an offset")
	}
	if got, known := timeline.ZoneOffset(timeline.Instant{Requested: "20261130041832352", Completed: "20261130031832400", Derived: true, ModTime: written}); got != time.Hour || !known {
		t.Errorf("derived completion: %s %v", got, known)
	}
}

func TestLocalZoneFixture(t *testing.T) {
	t.Parallel()
	_, p, tl := fixture(t, "local_zone")
	writes := tl.Writes()
	newest := writes[len(writes)-1]
	if p.Zone != "LOCAL" {
		t.Error(p.Zone)
	}
	at, err := timeline.InstantTime(newest.Completed, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	newest.ModTime = at.Add(5*time.Hour + 20*time.Millisecond)
	if got, known := timeline.ZoneOffset(newest); got != -5*time.Hour || !known {
		t.Errorf("got %s %v", got, known)
	}
}

// A restore to a savepoint may leave its commit alone: what was requested before it is archived, as for Hudi's readers, which take
// the first write for the beginning. Earliest says nothing then: that only a savepoint keeps a commit tells nothing of the archive.
func TestOnlyASavedCommitIsLeft(t *testing.T) {
	t.Parallel()
	tl := line(t, 2, at(26)+"_"+at(27)+".commit", at(26)+"_"+at(28)+".savepoint")
	if tl.Earliest() != "" {
		t.Errorf("earliest %s", tl.Earliest())
	}
	for requested, want := range map[string]bool{at(20): true, at(26): true, at(30): false} {
		if _, ok := tl.IsCompleted(requested); ok != want {
			t.Errorf("%s completed: %v", requested, ok)
		}
	}
}
