package hudimodel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tidemark/coverage"
	"tidemark/delta"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/hudimodel"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
	"tidemark/sink"
)

// failer is what testing and rapid have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// history is a model table with an index that follows it.
type history struct {
	failer
	ctx    context.Context
	w      *hudimodel.World
	place  mdt.Place
	cosine bool
	index  bool
	built  []string        // vector columns that have an index
	in     map[string]bool // requested times of what the index incorporates
	blind  map[table.Group]bool
	beyond bool // more keys have copies than the state keeps
}

func indexOf(column string) string { return column + "_idx" }

func follow(ctx context.Context, f failer, w *hudimodel.World) *history {
	return &history{failer: f, ctx: ctx, w: w, place: mdt.Inside(w.Store), in: map[string]bool{}, blind: map[table.Group]bool{}}
}

// fail ends the test and shows the history.
func (h *history) fail(format string, args ...any) {
	h.Helper()
	h.Fatalf("%s\n\nhistory:\n%s", fmt.Sprintf(format, args...), h.w.Script())
}

func (h *history) incorporated(t *hudimodel.Txn) bool { return h.in[t.Requested] }

// readable returns the completed instants from which on every snapshot is there, in completion order.
func (h *history) readable() []*hudimodel.Txn {
	done := h.w.Completed()
	first := 0
	for i, at := range done {
		in := upTo(at)
		if slices.ContainsFunc(h.w.Groups(), func(g *hudimodel.Group) bool { return g.Gone(in) }) {
			first = i + 1
		}
	}
	return done[first:]
}

func upTo(at *hudimodel.Txn) hudimodel.In {
	return func(t *hudimodel.Txn) bool { return t.Completed <= at.Completed }
}

// create builds the index at the snapshot of an instant. It is refused exactly if no row can be indexed there.
func (h *history) create(at *hudimodel.Txn, options map[string]string) {
	h.Helper()
	h.w.Note("h.create(%s, %#v)", at, options)
	h.cosine = options["vector.metric"] == "cosine"
	tb, err := table.Open(h.ctx, h.place.Store)
	if err != nil {
		h.fail("open table: %v", err)
	}
	c, err := indexer.OpenCommitter(h.ctx, h.place, indexer.CommitterOptions{Sink: sink.Config{Create: true}})
	if err != nil {
		h.fail("open committer: %v", err)
	}
	for _, column := range h.w.Vectors() {
		req := generation.CreateRequest{Column: column, AsOf: at.Requested, Place: h.place, Workers: 1}
		if req.Options, err = generation.ParseOptions(options); err != nil {
			h.fail("options: %v", err)
		}
		want := h.live(upTo(at), column)
		_, err = generation.Create(h.ctx, tb, c, req)
		if len(want) == 0 && errors.Is(err, storage.ErrRefused) {
			continue
		}
		if err != nil {
			h.fail("create: %v", err)
		}
		if len(want) == 0 {
			h.fail("an index of nothing was created")
		}
		h.built = append(h.built, column)
	}
	if h.index = len(h.built) > 0; !h.index {
		return
	}
	for _, t := range h.w.Completed() {
		if upTo(at)(t) {
			h.in[t.Requested] = true
		}
	}
	h.check("after create", true)
}

// live returns the rows that should have a posting in a column's index.
func (h *history) live(in hudimodel.In, column string) map[string]hudimodel.Live {
	out := h.w.ByKey(h.w.All(in))
	maps.DeleteFunc(out, func(_ string, r hudimodel.Live) bool { return !h.w.Indexable(r.Vector(column), h.cosine) })
	return out
}

// expected is what a marker should say.
type expected struct {
	txn    *hudimodel.Txn
	mode   string
	counts map[string]hudimodel.Counts // by column
}

// expect works out the markers of the instants that are due, in completion order.
func (h *history) expect() []expected {
	in := maps.Clone(h.in)
	has := func(t *hudimodel.Txn) bool { return in[t.Requested] }
	var due []*hudimodel.Txn
	for _, t := range h.w.Completed() {
		if !in[t.Requested] {
			due = append(due, t)
		}
	}
	var out []expected
	for len(due) > 0 {
		n := 1
		for ; n <= len(due); n++ {
			unit := due[:n]
			after := func(t *hudimodel.Txn) bool { return has(t) || slices.Contains(unit, t) }
			if !gone(unit, after) {
				break
			}
		}
		if n > len(due) {
			h.fail("the newest snapshot is gone: a fault of the model")
		}
		unit := due[:n]
		e := expected{mode: "full"}
		if gone(unit, has) {
			e.mode = "current_only"
			for _, t := range unit {
				for _, g := range t.Touched() {
					if g.Gone(has) {
						h.blind[table.Group{Partition: g.Partition, FileID: g.ID}] = true
					}
				}
			}
		} else {
			e.counts = map[string]hudimodel.Counts{}
			for _, column := range h.built {
				e.counts[column] = h.w.Diff(unit, has, column, h.cosine)
			}
		}
		if n > 1 {
			e.mode = "merged"
		}
		for _, t := range unit {
			e.txn = t
			out = append(out, e)
			in[t.Requested] = true
		}
		due = due[n:]
	}
	return out
}

func gone(unit []*hudimodel.Txn, in hudimodel.In) bool {
	for _, t := range unit {
		for _, g := range t.Touched() {
			if g.Gone(in) {
				return true
			}
		}
	}
	return false
}

// sync follows the table by at most n instants (0: all) and compares everything with the model.
func (h *history) sync(n int, verify bool) int {
	h.Helper()
	h.w.Note("h.sync(%d, true)", n)
	if !h.index {
		return 0
	}
	want := h.expect()
	r, err := indexer.Sync(h.ctx, h.place, indexer.SyncOptions{MaxInstants: n})
	if err != nil {
		h.fail("sync: %v", err)
	}
	if r.Processed > len(want) || n == 0 && r.Processed != len(want) || n > 0 && r.Processed < min(n, len(want)) {
		h.fail("sync covered %d instants, %d are due, asked for %d", r.Processed, len(want), n)
	}
	want = want[:r.Processed]
	for _, e := range want {
		h.in[e.txn.Requested] = true
	}
	list, err := coverage.Markers(h.ctx, coverage.Deps{Place: h.place}, "", 0)
	if err != nil {
		h.fail("markers: %v", err)
	}
	for _, e := range want {
		for _, column := range h.built {
			at := slices.IndexFunc(list, func(m coverage.Marker) bool { return m.Index == indexOf(column) && m.Requested == e.txn.Requested })
			if at < 0 {
				h.fail("%s (%s) has no marker for %s", e.txn, e.txn.Requested, column)
			}
			h.compare(e, column, list[at])
		}
	}
	h.check(fmt.Sprintf("after %d instants", r.Processed), verify)
	return r.Processed
}

// compare holds a marker against what whole slices say. How many unchanged rows, and rows that were and are unindexable, were looked at is
// the product's business.
func (h *history) compare(e expected, column string, m coverage.Marker) {
	h.Helper()
	if m.Completed != e.txn.Completed || m.Action != e.txn.Action() || m.Operation != e.txn.Operation || m.Mode != e.mode {
		h.fail("marker of %s: %+v, want mode %s", e.txn, m, e.mode)
	}
	if e.mode != "full" {
		return
	}
	got := hudimodel.Counts{Insert: m.Counts["insert"], Update: m.Counts["vector_update"], Refresh: m.Counts["locator_refresh"], Delete: m.Counts["delete"]}
	all := e.counts[column]
	want := all
	want.Unindexable, want.Lost = 0, 0
	if got != want {
		h.fail("counts of %s (%s), column %s: got %+v, want %+v", e.txn, e.txn.Operation, column, got, want)
	}
	if n := m.Counts["unindexable"]; n < all.Lost || n > all.Unindexable {
		h.fail("%s, column %s: %d unindexable rows, want %d to %d", e.txn, column, n, all.Lost, all.Unindexable)
	}
	sum := int64(0)
	for _, n := range m.Reasons {
		sum += n
	}
	if sum != m.Counts["unindexable"] {
		h.fail("%s: %d unindexable rows, reasons %v", e.txn, m.Counts["unindexable"], m.Reasons)
	}
}

// check compares all live postings with the model's rows, and lets verify do so with the table's.
func (h *history) check(when string, verify bool) {
	h.Helper()
	for _, column := range h.built {
		h.checkIndex(fmt.Sprintf("%s, column %s", when, column), column, verify)
	}
}

func (h *history) checkIndex(when, column string, verify bool) {
	h.Helper()
	want := h.live(h.incorporated, column)
	st, _, err := mdt.ReadState(h.ctx, h.place)
	if err != nil {
		h.fail("%s: %v", when, err)
	}
	view, err := mdt.OpenView(h.ctx, h.place, st, indexOf(column))
	if err != nil {
		h.fail("%s: %v", when, err)
	}
	g, err := generation.Load(h.ctx, view, st.Indexes[indexOf(column)])
	if err != nil {
		h.fail("%s: %v", when, err)
	}
	seen := map[string]bool{}
	hidden := int64(0)
	err = g.Postings(h.ctx, view, func(p generation.Posting) error {
		row, ok := want[p.Key]
		if !ok {
			if h.blind[table.Group{Partition: p.Locator.Partition, FileID: p.Locator.FileID}] {
				hidden++
				return nil
			}
			return fmt.Errorf("posting of %q, which is not live", p.Key)
		}
		if seen[p.Key] {
			return fmt.Errorf("second posting of %q", p.Key)
		}
		seen[p.Key] = true
		return h.posting(g, p, row, row.Vector(column))
	})
	if err != nil {
		h.fail("%s: %v", when, err)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !seen[key] {
			h.fail("%s: no posting of %q, which is live in %s/%s", when, key, want[key].Partition, want[key].FileID)
		}
	}
	twice := h.twice(h.incorporated)
	h.known(st.Indexes[indexOf(column)].Copies, twice, when)
	if !verify {
		return
	}
	rep, err := coverage.Verify(h.ctx, coverage.Deps{Place: h.place}, coverage.VerifyRequest{Index: indexOf(column), Examples: 100})
	if err != nil {
		h.fail("%s: verify: %v", when, err)
	}
	if !rep.OK || rep.WrongLocator != 0 || rep.ForeignFiles != 0 || rep.Checked != int64(len(want)) || rep.Hidden != hidden || rep.DuplicateKeys != int64(len(twice)) {
		h.fail("%s: verify: %+v; want %d keys, %d hidden, %d with copies", when, *rep, len(want), hidden, len(twice))
	}
}

// twice returns the keys that live more than once, with the groups that hold them.
func (h *history) twice(in hudimodel.In) map[string][]mdt.CopiedIn {
	rows, at := map[string]int{}, map[string][]mdt.CopiedIn{}
	for _, r := range h.w.All(in) {
		rows[r.Key]++
		if g := (mdt.CopiedIn{Partition: r.Partition, FileID: r.FileID}); !slices.Contains(at[r.Key], g) {
			at[r.Key] = append(at[r.Key], g)
		}
	}
	maps.DeleteFunc(at, func(key string, _ []mdt.CopiedIn) bool { return rows[key] < 2 })
	return at
}

// known compares the copies that the state knows with those of the table.
func (h *history) known(got *mdt.Copies, want map[string][]mdt.CopiedIn, when string) {
	h.Helper()
	by := h.w.ByKey(h.w.All(h.incorporated))
	for key, groups := range want {
		k, ok := got.Find(key)
		if !ok && h.beyond {
			continue
		}
		if !ok {
			h.fail("%s: the state does not know the copies of %q", when, key)
		}
		first := mdt.CopiedIn{Partition: by[key].Partition, FileID: by[key].FileID}
		if k.Groups[0] != first || len(k.Groups) != len(groups) || slices.ContainsFunc(groups, func(g mdt.CopiedIn) bool { return !slices.Contains(k.Groups, g) }) {
			h.fail("%s: copies of %q: %+v, want %v, the row in %v", when, key, k, groups, first)
		}
	}
	if n := got.Duplicates(); n != int64(len(want)) && !h.beyond {
		h.fail("%s: the state knows %d keys with copies, there are %d", when, n, len(want))
	}
}

// posting compares one posting with the row that it stands for.
func (h *history) posting(g *generation.Generation, p generation.Posting, r hudimodel.Live, raw []byte) error {
	v := make([]float32, h.w.Dim)
	if !kernel.ToFloat32(v, raw, h.w.Element.Kernel()) {
		return fmt.Errorf("vector of %q", p.Key)
	}
	c := g.Cluster(v)
	code := g.Encode(v, c)
	at := delta.Locator{Partition: r.Partition, FileID: r.FileID, BaseInstant: r.BaseInstant, Position: r.Position}
	got, want := p.Factors, code.F
	got.VectorNorm, want.VectorNorm = 0, 0
	if p.Cluster != c || p.Locator != at || string(p.Binary) != string(rabitq.DeltaBinary(nil, code)) || got != want {
		return fmt.Errorf("posting of %q: %+v, want cluster %d, %+v, %x, %+v (vector %x)", p.Key, p, c, at, rabitq.DeltaBinary(nil, code), want, raw)
	}
	return nil
}

// catchUp syncs in chunks of n instants until nothing is left.
func (h *history) catchUp(n int) {
	for h.sync(n, false) > 0 && n > 0 {
	}
}
