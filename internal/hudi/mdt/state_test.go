package mdt

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
)

// fullState has every field set.
func fullState() *State {
	now := time.Date(2030, 1, 2, 3, 4, 5, 6000000, time.UTC)
	file := func(name string, base bool) DataFile {
		return DataFile{Path: "vector_index_v_idx/" + name, Index: "v_idx", Size: 7, SHA256: "ab", ID: "20261130020922679", Base: base}
	}
	st := NewState()
	st.Revision, st.Epoch, st.Owner, st.Host, st.PID, st.ValidUntil = 3, 2, "o", "h", 9, now
	st.LastTime, st.NewestSeen, st.Allocated = "20261130020922680", "20261130020922678", 1
	st.Indexes["v_idx"] = &Index{Name: "v_idx", Column: "v", Element: avrox.ElementDouble, Dim: 3, Options: map[string]string{"a": "b"},
		Dir: "vector_index_v_idx", FileGroups: 1, Generations: []GenState{{Number: 1, State: GenDropped}, {Number: 4, State: GenActive, Built: "1", Activated: "2"}},
		Baseline: Baseline{Instants: map[string]string{"1": "2"}, Before: "0"}, Covered: map[string]string{"3": "4"},
		Frontier: Frontier{Requested: "3", Completed: "4"}, Building: []DataFile{file("building", true)}}
	st.Base = []DataFile{file("z", true)}
	st.Commits = []Commit{{ID: "20261130020922679", Completion: "20261130020922680", Kind: "sync", VisibleAt: now, Files: []DataFile{file("log", false)},
		Covered: []CoveredInstant{{Index: "v_idx", Requested: "3", Completed: "4", Action: "commit", Operation: "UPSERT", Mode: "full",
			Counts: map[string]int64{"insert": 2}, Digest: "cd", Frontier: "4"}}}}
	st.Ledger = []Ledger{{Path: "ledger/20261130020922678-1-0123456789ab.json", Size: 7, SHA256: "ab", First: "1", Last: "2", Instants: 1,
		Commit: "20261130020922678", Indexes: []string{"v_idx"}, Undone: map[string][]string{"v_idx": {"1"}}}}
	st.Restores = map[string]string{"5": "6"}
	st.Archive = SeenArchive{Version: 2, Upto: "0", Earliest: "1"}
	st.Indexes["v_idx"].Seen = map[string]Seen{"1": {Completed: "2", Action: "commit", Size: 7, Digest: "ef"}, "3": {Completed: "4", Action: "commit", Size: 8}}
	st.Degraded = []DegradedGroup{{Index: "v_idx", Partition: "p", FileID: "f", Since: "3"}}
	st.Retired = []Retired{{Path: "vector_index_v_idx/old", Index: "v_idx", DeleteAfter: now}}
	st.Burned = []string{"vector_index_v_idx/burned"}
	st.Paused = true
	st.Quarantine = map[string]Quarantine{"7": {Reason: "r", Since: now, Attempts: 2}}
	st.Skipped = map[string]Skip{"8": {Reason: "s", At: now}}
	after := NewState()
	after.Revision = 4
	st.Intent = &Intent{State: Staging, Kind: "sync", ID: "20261130020922681", Completion: "20261130020922682", Files: []DataFile{file("next", false)},
		Commit: []byte{1, 2}, After: after}
	return st
}

func TestStateRoundTrip(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]*State{"empty": NewState(), "full": fullState()} {
		b, err := EncodeState(st)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeState(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := EncodeState(got)
		if err != nil || string(again) != string(b) {
			t.Errorf("%s: %v\n%s\n%s", name, err, b, again)
		}
		if d := cmp.Diff(st, got) + cmp.Diff(st, st.Clone()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	x := fullState().Indexes["v_idx"]
	if g, ok := x.Active(); !ok || g.Number != 4 || x.LastGeneration() != 4 {
		t.Errorf("active %+v, last %d", g, x.LastGeneration())
	}
	if _, ok := (&Index{}).Active(); ok {
		t.Error("an index without generations is active")
	}
	var paths []string
	for _, f := range fullState().Live("v_idx") {
		paths = append(paths, f.Path)
	}
	if got := strings.ReplaceAll(strings.Join(paths, " "), "vector_index_v_idx/", ""); got != "building log z" {
		t.Errorf("live files %q", got)
	}
	if n := len(fullState().Live("other")); n != 0 {
		t.Errorf("%d files of another index", n)
	}
}

func TestStateRefused(t *testing.T) {
	t.Parallel()
	good, err := EncodeState(fullState())
	if err != nil {
		t.Fatal(err)
	}
	replace := func(from, to string) string {
		if !strings.Contains(string(good), from) {
			t.Fatalf("no %s in the state", from)
		}
		return strings.Replace(string(good), from, to, 1)
	}
	for _, c := range []struct {
		name, text string
		want       error
	}{
		{"empty", "", storage.ErrCorrupt},
		{"cut", string(good[:len(good)/2]), storage.ErrCorrupt},
		{"bytes after it", string(good) + "{}", storage.ErrCorrupt},
		{"newer format", replace(`"format": 1`, `"format": 2`), storage.ErrUnsupported},
		{"newer format with new fields", replace(`"format": 1`, `"format": 2, "other": {}`), storage.ErrUnsupported},
		{"no format", "{}", storage.ErrUnsupported},
		{"unknown field", replace(`"revision"`, `"revisions"`), storage.ErrCorrupt},
		{"wrong type", replace(`"epoch": 2`, `"epoch": "2"`), storage.ErrCorrupt},
		{"index under another name", replace(`"name": "v_idx"`, `"name": "w_idx"`), storage.ErrCorrupt},
		{"index elsewhere", replace(`"dir": "vector_index_v_idx"`, `"dir": "files"`), storage.ErrCorrupt},
		{"path out of the store", replace(`"vector_index_v_idx/z"`, `"../z"`), storage.ErrCorrupt},
		{"a file twice", replace(`"vector_index_v_idx/z"`, `"vector_index_v_idx/log"`), storage.ErrCorrupt},
		{"ledger elsewhere", replace(`"ledger/2`, `"../ledger/2`), storage.ErrCorrupt},
		{"ledger of no index", replace(`"indexes": [
    "v_idx"
   ]`, `"indexes": []`), storage.ErrCorrupt},
		{"negative size", replace(`"size": 7`, `"size": -7`), storage.ErrCorrupt},
		{"intent in no known state", replace(`"STAGING"`, `"DONE"`), storage.ErrCorrupt},
		{"null index", replace(`"restores": {`, `"restores": null, "indexes": {"x": null}, "skipped": {}, "degraded": [], "retired": [], "burned": [], "quarantine": {}, "restores": {`), storage.ErrCorrupt},
	} {
		if _, err := DecodeState([]byte(c.text)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		st := mem.New("t")
		if _, err := st.Create(t.Context(), ".hoodie/.tidemark/state.json", []byte(c.text)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadState(t.Context(), Inside(st)); !errors.Is(err, c.want) || storage.Hint(err) == "" {
			t.Errorf("%s: read: %v, hint %q", c.name, err, storage.Hint(err))
		} else if newer := strings.HasPrefix(c.name, "newer"); newer != strings.Contains(storage.Hint(err), "use that build") || newer == strings.Contains(storage.Hint(err), "create the index again") {
			t.Errorf("%s: hint %q", c.name, storage.Hint(err))
		}
	}
	if _, _, err := ReadState(t.Context(), Inside(mem.New("t"))); !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) == "" {
		t.Errorf("no state: %v", err)
	}
}

func FuzzDecodeState(f *testing.F) {
	good, err := EncodeState(fullState())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"format":1,"intent":{"state":"STAGING","after":{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		st, err := DecodeState(b)
		if err == nil {
			st.Clone()
			st.Live("")
		}
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	const id = "20261130020922679"
	for _, name := range []string{LogName(12, id, "7427-3-1"), BaseName(12, id, "7427-3-1")} {
		got, base, ok := OwnName(name)
		if !ok || got != id || base != strings.HasSuffix(name, ".hfile") || Group("vector_index_x/"+name) != 12 {
			t.Errorf("%s: %s, %t, %t, group %d", name, got, base, ok, Group(name))
		}
	}
	for _, name := range []string{"", ".", "x", "notes.txt", ".hoodie_partition_metadata",
		".vector-index-0000-0_" + id + ".log.1_0-0-0", "vector-index-0000-0_0-0-0_" + id + ".hfile",
		".vector-index-0000-0_" + id + ".log.2_7427-1-0", "vector-index-0000-0_7427-1_" + id + ".hfile",
		"vector-index-0000-0_7427-1-x_" + id + ".hfile", "vector-index-0000-0_7427-1-0_x.hfile", "files-0000-0_7427-1-0_" + id + ".hfile"} {
		if _, _, ok := OwnName(name); ok {
			t.Errorf("%q counts as ours", name)
		}
	}
	if Group("x/y") != -1 {
		t.Error("a group in a foreign name")
	}
}

// Every flipped byte of the state object is noticed, or means nothing (white space).
func TestStateFlips(t *testing.T) {
	t.Parallel()
	b, err := EncodeState(fullState())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := DecodeState(b)
	if err != nil {
		t.Fatal(err)
	}
	noticed := 0
	for i := range b {
		for _, bit := range []byte{1, 4, 32} {
			bad := append([]byte(nil), b...)
			bad[i] ^= bit
			st, err := DecodeState(bad)
			if err != nil {
				noticed++
				continue
			}
			if d := cmp.Diff(whole, st); d != "" {
				t.Fatalf("byte %d ^ %d is believed:\n%s", i, bit, d)
			}
		}
	}
	if noticed < 2*len(b) {
		t.Errorf("%d of %d flips noticed", noticed, 3*len(b))
	}
}
