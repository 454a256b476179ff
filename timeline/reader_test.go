package timeline_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/fault"
	"tidemark/internal/storage/mem"
	"tidemark/timeline"
)

// asked returns what a store was asked since n calls ago, without the folder.
func asked(st *fault.Store, n int) string {
	return strings.ReplaceAll(strings.Join(st.Trace()[n:], ", "), ".hoodie/", "")
}

// reader is a reader of a table with those timeline files.
func reader(t testing.TB, names ...string) (*mem.Store, *fault.Store, *timeline.Reader) {
	t.Helper()
	mst := files(t, map[string]string{".hoodie/hoodie.properties": v9, ".hoodie/timeline/.keep": ""})
	for _, n := range names {
		put(mst, n)
	}
	st := fault.New(mst, fault.Config{})
	return mst, st, timeline.NewReader(st, dotHoodie)
}

// put makes a timeline file; a commit has metadata.
func put(st *mem.Store, name string) {
	st.Put(".hoodie/timeline/"+name, commitText(len(name)), time.Unix(0, 0))
}

func done(n int) string { return at(n) + "_" + at(n+1) + ".commit" }

func TestRequestsOfALook(t *testing.T) {
	t.Parallel()
	mst, st, r := reader(t, done(10), done(20))
	open := func(want string) *timeline.Timeline {
		t.Helper()
		n := st.Calls()
		p, tl, err := r.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range tl.Writes() {
			if _, err := r.Commit(t.Context(), p, w); err != nil {
				t.Fatal(err)
			}
		}
		if got := asked(st, n); got != want {
			t.Errorf("asked for %s\nwant %s", got, want)
		}
		return tl
	}
	poll := func(want bool) {
		t.Helper()
		n := st.Calls()
		moved, err := r.Poll(t.Context())
		if moved != want || err != nil || asked(st, n) != "list timeline" {
			t.Errorf("moved %v, %v, asked for %s", moved, err, asked(st, n))
		}
	}
	if moved, err := r.Poll(t.Context()); !moved || err != nil || st.Calls() != 0 {
		t.Errorf("before the first look: %v %v", moved, err)
	}
	one := open("read hoodie.properties, list timeline, stat hoodie.properties, list timeline, read timeline/" + done(10) + ", read timeline/" + done(20))
	poll(false)
	if two := open("list timeline, stat hoodie.properties"); two != one {
		t.Error("a look without news is another one")
	}
	put(mst, done(30))
	poll(true)
	three := open("list timeline, stat hoodie.properties, list timeline, read timeline/" + done(30))
	if len(three.Writes()) != 3 || len(one.Writes()) != 2 {
		t.Errorf("%d and %d writes", len(three.Writes()), len(one.Writes()))
	}
	mst.Put(".hoodie/hoodie.properties", []byte(v9+"hoodie.table.metadata.partitions=files\n"), time.Now().Add(time.Hour))
	n := st.Calls()
	if p, _, err := r.Open(t.Context()); err != nil || len(p.MetadataPartitions) != 1 {
		t.Errorf("%v %v", p, err)
	}
	if got := asked(st, n); got != "list timeline, stat hoodie.properties, read hoodie.properties, list timeline, stat hoodie.properties, list timeline" {
		t.Errorf("properties changed: asked for %s", got)
	}
	open("list timeline, stat hoodie.properties")
	if s := r.Stats(); s.Misses != 3 || s.Evicted != 0 || s.Bytes == 0 || s.Hits == 0 {
		t.Errorf("%+v", s)
	}
	// A damaged file is read each time, so that its repair is seen.
	name := at(40) + "_" + at(41) + ".commit"
	mst.Put(".hoodie/timeline/"+name, []byte("{"), time.Unix(0, 0))
	p, tl, err := r.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inst, _ := tl.Find(at(40))
	if _, err := r.Commit(t.Context(), p, inst); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("damaged: %v", err)
	}
	put(mst, name)
	if _, err := r.Commit(t.Context(), p, inst); err != nil {
		t.Errorf("repaired: %v", err)
	}
}

// The memory of a reader is bounded; what was used last stays.
func TestMetadataIsForgotten(t *testing.T) {
	t.Parallel()
	mst, st, r := reader(t)
	big := strings.Repeat("x", 3<<20)
	for i := range 20 {
		mst.Put(".hoodie/timeline/"+done(10+i), fmt.Appendf(nil, `{"extraMetadata":{"big":"%s"}}`, big), time.Unix(0, 0))
	}
	p, tl, err := r.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	writes := tl.Writes()
	for _, w := range append(slices.Clone(writes), writes[19], writes[18], writes[19]) {
		if _, err := r.Commit(t.Context(), p, w); err != nil {
			t.Fatal(err)
		}
	}
	s := r.Stats()
	if s.Misses != 20 || s.Hits != 3 || s.Evicted < 5 || s.Bytes > 32<<20 {
		t.Errorf("%+v", s)
	}
	n := st.Calls()
	if _, err := r.Commit(t.Context(), p, writes[0]); err != nil || st.Calls() != n+1 {
		t.Errorf("what was forgotten is read again: %v, %s", err, asked(st, n))
	}
}

// moving changes a table at chosen listings.
func moving(t *testing.T, names []string, change func(st *mem.Store, n int)) (*timeline.Timeline, error) {
	t.Helper()
	mst, _, _ := reader(t, names...)
	n := 0
	st := fault.New(mst, fault.Config{Before: func(_ int, op, _ string) error {
		if op == "list" {
			n++
			change(mst, n)
		}
		return nil
	}})
	_, tl, err := timeline.NewReader(st, dotHoodie).Open(t.Context())
	return tl, err
}

// A look is one moment: what appears, completes or vanishes between its two listings makes it be taken again. Under constant
// commits an earlier moment is good enough, but never a mixture.
func TestALookIsOneMoment(t *testing.T) {
	t.Parallel()
	tl, err := moving(t, []string{done(10)}, func(st *mem.Store, n int) {
		if n == 2 {
			put(st, done(20))
		}
	})
	if err != nil || len(tl.Writes()) != 2 {
		t.Errorf("a commit between the listings: %v", err)
	}
	// The listing of a long timeline is torn: it shows a later commit and not the earlier one.
	tl, err = moving(t, []string{done(30)}, func(st *mem.Store, n int) {
		if n == 2 {
			put(st, done(20))
		}
	})
	if err != nil || len(tl.Writes()) != 2 {
		t.Errorf("a torn listing: %v", err)
	}
	tl, err = moving(t, []string{done(10)}, func(st *mem.Store, n int) { put(st, done(10*n+10)) })
	if err != nil || len(tl.Writes()) < 2 {
		t.Errorf("constant commits: %v", err)
	}
	for name, change := range map[string]func(st *mem.Store, n int){
		"earlier commits keep appearing": func(st *mem.Store, n int) { put(st, done(5000-10*n)) },
		"instants keep vanishing": func(st *mem.Store, n int) {
			_ = st.Delete(t.Context(), ".hoodie/timeline/"+done(10*n))
		},
		"a pending one completes in the past": func(st *mem.Store, n int) { put(st, done(600+10*n)) },
	} {
		var names []string
		for i := range 50 {
			names = append(names, done(10+10*i))
		}
		for i := range 12 {
			names = append(names, at(600+10*i)+".commit.requested")
		}
		names = append(names, done(3000))
		if _, err := moving(t, names, change); !errors.Is(err, storage.ErrStale) || storage.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTwoCompletedFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		names []string
		bad   bool
	}{
		{[]string{at(1) + "_" + at(5) + ".commit", at(1) + "_" + at(6) + ".commit"}, true},
		{[]string{at(1) + ".compaction.requested", at(1) + "_" + at(6) + ".commit", at(1) + "_" + at(5) + ".commit"}, true},
		{[]string{at(1) + "_" + at(5) + ".restore", at(1) + "_" + at(6) + ".restore"}, true},
		{[]string{at(1) + "_" + at(5) + ".commit", at(1) + "_" + at(6) + ".deltacommit"}, true},
		{[]string{at(1) + "_" + at(5) + ".commit", at(1) + "_" + at(6) + ".savepoint"}, false}, // each its own
		{[]string{at(1) + ".commit", at(1) + "_" + at(6) + ".commit"}, false},                  // a leftover of an upgrade
	} {
		_, p, st := lineStore(t, 2, tt.names...)
		_, err := timeline.Load(t.Context(), st, dotHoodie, p)
		if tt.bad != errors.Is(err, storage.ErrCorrupt) || !tt.bad && err != nil || tt.bad && (!strings.Contains(err.Error(), at(6)) || !strings.Contains(err.Error(), at(5)) || storage.Hint(err) == "") {
			t.Errorf("%v: %v", tt.names, err)
		}
	}
}

// The schema is found without reading a commit twice, also when the newest ones carry none.
func TestSchemaIsRemembered(t *testing.T) {
	t.Parallel()
	mst, st, r := reader(t)
	const schema = `{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}`
	mst.Put(".hoodie/timeline/"+done(10), fmt.Appendf(nil, `{"operationType":"UPSERT","extraMetadata":{"schema":%q}}`, schema), time.Unix(0, 0))
	ask := func(want string) {
		t.Helper()
		p, tl, err := r.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := st.Calls()
		if text, err := r.Schema(t.Context(), p, tl, ""); text != schema || err != nil || asked(st, n) != want {
			t.Errorf("%s, %v, asked for %s, want %s", text, err, asked(st, n), want)
		}
	}
	ask("read timeline/" + done(10))
	ask("")
	put(mst, done(20))
	put(mst, done(30))
	ask("read timeline/" + done(30) + ", read timeline/" + done(20))
	ask("")
}

// broad answers several calls at once.
type broad struct{ storage.Store }

func (broad) Broad() bool { return true }

// What is asked for at once tells the same, and properties replaced between two listings are noticed by the second Stat.
func TestLooksAtOnce(t *testing.T) {
	t.Parallel()
	mst, st, _ := reader(t, done(10))
	r, one := timeline.NewReader(broad{st}, dotHoodie), timeline.NewReader(broad{st}, dotHoodie)
	var tl *timeline.Timeline
	look := func(what string, writes, lists, stats, reads int, fn func() *timeline.Timeline) {
		t.Helper()
		n, got := st.Calls(), map[string]int{}
		tl = fn()
		for _, call := range st.Trace()[n:] {
			op, _, _ := strings.Cut(call, " ")
			got[op]++
		}
		if len(tl.Writes()) != writes || got["list"] != lists || got["stat"] != stats || got["read"] != reads {
			t.Errorf("%s: %d writes, %v", what, len(tl.Writes()), got)
		}
	}
	open := func() *timeline.Timeline {
		_, tl, err := r.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return tl
	}
	glance := func() *timeline.Timeline {
		g, err := one.Glance(t.Context())
		if err != nil || g.File.Path != ".hoodie/hoodie.properties" {
			t.Fatal(g, err)
		}
		return g.Timeline
	}
	look("first", 1, 2, 1, 1, open)
	look("no news", 1, 1, 1, 0, open)
	look("first glance", 1, 1, 1, 1, glance)
	put(mst, done(20))
	look("glance with news", 2, 1, 1, 0, glance)
	look("news", 2, 2, 2, 0, open)
	look("glance without news", 2, 1, 1, 0, glance)
	// What was listed once only is not taken for a look.
	if _, _, err := one.Open(t.Context()); err != nil {
		t.Error(err)
	}
	mst.Put(".hoodie/hoodie.properties", []byte(v9+"\n#\n"), time.Unix(9, 0))
	look("other properties", 2, 3, 2, 1, open)
	look("other properties at a glance", 2, 2, 2, 1, glance)
}

// A look that was begun is the same look as long as nothing moves, and none that has not been listed again.
func TestBeginIsHalfALook(t *testing.T) {
	t.Parallel()
	later := func(st *mem.Store, name string, text string) { st.Put(name, []byte(text), time.Unix(9, 0)) }
	for _, c := range []struct {
		name   string
		before func(st *mem.Store) // Begin
		moves  func(st *mem.Store) // between Begin and Open
		begins bool
		same   bool
		writes int
	}{
		{"nothing moves", nil, nil, true, true, 1},
		{"a commit", nil, func(st *mem.Store) { put(st, done(20)) }, true, false, 2},
		{"other properties", nil, func(st *mem.Store) { later(st, ".hoodie/hoodie.properties", v9+"\n#\n") }, true, false, 1},
		{"elsewhere", func(st *mem.Store) { later(st, ".hoodie/hoodie.properties", v9+"\nhoodie.timeline.path=other\n") },
			func(st *mem.Store) { later(st, ".hoodie/hoodie.properties", v9+"\n#\n") }, false, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mst, st, _ := reader(t, done(10))
			if c.before != nil {
				c.before(mst)
			}
			r := timeline.NewReader(broad{st}, dotHoodie)
			p, begun := r.Begin(t.Context())
			if (begun != nil) != c.begins || (p != nil) != c.begins {
				t.Fatalf("begun %v", begun)
			}
			if c.moves != nil {
				c.moves(mst)
			}
			_, tl, err := r.Open(t.Context())
			if err != nil || len(tl.Writes()) != c.writes || c.begins && (tl == begun) != c.same {
				t.Errorf("%d writes, same %v, %v", len(tl.Writes()), tl == begun, err)
			}
			if p, tl := r.Begin(t.Context()); p != nil || tl != nil {
				t.Error("begun after a look")
			}
		})
	}
	_, st, _ := reader(t, done(10))
	if _, tl := timeline.NewReader(st, dotHoodie).Begin(t.Context()); tl != nil {
		t.Error("begun on a store that is asked for one thing at a time")
	}
}
