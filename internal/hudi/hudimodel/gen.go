package hudimodel

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"tidemark/internal/hudi/avrox"
)

// Generator draws the next operation of a random history.
type Generator struct {
	W *World
	// Keys and Partitions are what rows are made of.
	Keys, Partitions []string
	// Overlap lets writers append to the same groups at the same time (non-blocking concurrency). Every key then has one
	// group for good.
	Overlap bool
	// Clean lets the cleaner run.
	Clean bool
	// Copies lets inserts make further copies of a record key; Copied are the keys that ever had any.
	Copies bool
	Copied map[string]bool

	t       *rapid.T
	ids     map[string]int // file groups begun, by partition
	pending []*open
}

// open is a pending instant and what others must not touch until it ends.
type open struct {
	txn    *Txn
	keys   map[string]bool
	groups map[*Group]bool // nobody else writes them
	shared map[*Group]bool // others may append logs
	finish func()          // writes what is still to be written
}

// Palette are record keys of every kind.
var Palette = []string{"a", "b", "c", "d", "e", "f", "k|1", "k:2", "k/3", "sku:s1,lang:de", "__null__", "ключ", "日本", "\U00010348", "\uffee", "é", "e\u0301",
	" ", "%2F", "_hoodie", "0", "00", "-1", "Z", strings.Repeat("long/", 400)}

// Partitionings are sets of partitions of every kind.
var Partitionings = [][]string{{""}, {"eu", "us", "ap"}, {"2026/01/01", "2026/01/02", "2026/02/01"}, {"region=a%2Fb", "region=sp ace", "region=日本"}}

// NewGenerator draws the shape of a table and returns it without commits.
func NewGenerator(w *World, t *rapid.T) *Generator {
	g := &Generator{W: w, t: t, ids: map[string]int{}, Copied: map[string]bool{}}
	g.Keys = Palette[:g.n(6, len(Palette), "keys")]
	g.Partitions = Partitionings[g.n(0, len(Partitionings)-1, "partitions")]
	return g
}

// n draws a number.
func (g *Generator) n(low, high int, what string) int {
	return rapid.IntRange(low, high).Draw(g.t, what)
}

// one is true once in n times; it shrinks to false.
func (g *Generator) one(n int, what string) bool { return g.n(0, n-1, what) == n-1 && n > 1 }

func pick[T any](g *Generator, list []T, what string) T { return list[g.n(0, len(list)-1, what)] }

// some draws a subset of at least low elements.
func some[T any](g *Generator, list []T, low, high int, what string) []T {
	high = min(high, len(list))
	if high == 0 || low > high {
		return nil
	}
	left, out := slices.Clone(list), []T{}
	for range g.n(low, high, what) {
		i := g.n(0, len(left)-1, what)
		out = append(out, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return out
}

// Vector draws a stored vector, every kind of unindexable one among them.
func (g *Generator) vector() []byte {
	w, kind := g.W, g.n(0, 19, "vector")
	if kind == 19 {
		return nil
	}
	b := make([]byte, 0, w.VectorBytes())
	for i := range w.Dim {
		x := float64(g.n(-2, 3, "x"))
		if i == 0 && x == 0 && kind < 12 {
			x = 1
		}
		switch {
		case kind == 13:
			x = 0
		case kind == 14:
			x = math.Copysign(0, -1)
		case kind == 15 && i == w.Dim-1:
			x = math.Inf(1 - 2*(i%2))
		case kind == 16 && i == 0:
			x = 1e300 // beyond float32
		case kind == 17:
			x *= 1e-42 // denormal in float32
		}
		nan := kind == 18 && i == 0
		switch w.Element {
		case avrox.ElementInt8:
			b = append(b, byte(int8(max(-2, min(3, x)))))
		case avrox.ElementDouble:
			bits := math.Float64bits(x)
			if nan {
				bits = 0x7ff8000000000000 | uint64(g.n(0, 3, "payload"))
			}
			b = binary.LittleEndian.AppendUint64(b, bits)
		default:
			bits := math.Float32bits(float32(x))
			if nan {
				bits = 0x7fc00000 | uint32(g.n(0, 3, "payload"))
			}
			b = binary.LittleEndian.AppendUint32(b, bits)
		}
	}
	return b
}

func (g *Generator) row(key string) Row {
	return Row{Key: key, TS: int64(g.n(1, 9, "ts")), Vec: g.vector()}
}

// state is the table as a writer sees it.
type state struct {
	home  map[string]*Group // live key → its group
	free  []string          // keys that are nowhere live and not in a pending write
	live  []string          // live keys that no pending write has
	open  []*Group          // visible groups that nobody holds
	logs  []*Group          // visible groups to which logs may be appended
	taken map[string]bool
}

func (g *Generator) look() state {
	w := g.W
	s := state{home: map[string]*Group{}, taken: map[string]bool{}}
	held, shared := map[*Group]bool{}, map[*Group]bool{}
	for _, p := range g.pending {
		maps.Copy(s.taken, p.keys)
		maps.Copy(held, p.groups)
		maps.Copy(shared, p.shared)
	}
	for _, gr := range w.groups {
		if _, ok := gr.slice(completed); !ok {
			continue
		}
		if !held[gr] {
			s.logs = append(s.logs, gr)
			if !shared[gr] {
				s.open = append(s.open, gr)
			}
		}
		for _, r := range w.Rows(gr, completed) {
			s.home[r.Key] = gr
		}
	}
	for _, k := range g.Keys {
		switch h := s.home[k]; {
		case s.taken[k]:
		case h == nil:
			s.free = append(s.free, k)
		case !held[h]:
			s.live = append(s.live, k)
		}
	}
	return s
}

// newGroup names a file group that is new in its partition; the same ids occur in other partitions.
func (g *Generator) newGroup(partition string) string {
	n := g.ids[partition]
	g.ids[partition]++
	return fmt.Sprintf("%08d-ba34-4104-af0d-411a486a09ce-%d", n/2, n%2)
}

// Step makes one operation.
func (g *Generator) Step() {
	g.W.Note("")
	if g.Overlap {
		g.overlapStep()
		return
	}
	if g.W.legacy && g.one(4, "upgrade") {
		g.W.Upgrade()
	}
	s := g.look()
	ops := []func(state){g.write, g.write, g.write, g.write, g.insert, g.empty}
	if len(s.open) > 0 {
		ops = append(ops, g.clustering, g.overwrite)
		if g.W.MoR {
			ops = append(ops, g.compaction, g.compaction)
		}
		if g.W.MoR && !g.W.legacy {
			ops = append(ops, g.logCompaction)
		}
	}
	if len(g.pending) > 0 {
		ops = append(ops, g.end, g.end)
	}
	if g.Clean && len(g.W.Completed()) > 1 {
		ops = append(ops, g.clean, g.clean)
	}
	pick(g, ops, "op")(s)
}

// End settles everything that is pending.
func (g *Generator) End() {
	for len(g.pending) > 0 {
		g.end(state{})
	}
}

func (g *Generator) end(state) {
	i := g.n(0, len(g.pending)-1, "which")
	p := g.pending[i]
	g.pending = slices.Delete(g.pending, i, i+1)
	if g.one(3, "rollback") {
		p.txn.Rollback()
		return
	}
	g.complete(p)
}

func (g *Generator) complete(p *open) {
	if p.finish != nil {
		p.finish()
	}
	w := g.W
	done := w.Completed()
	if n := len(done); n > 0 && g.one(8, "same time") && done[n-1].Completed > p.txn.Requested && w.idle(done[n-1].Completed) {
		p.txn.CompleteAs(done[n-1])
		return
	}
	p.txn.Complete()
}

// idle says that no instant was requested since a time.
func (w *World) idle(since string) bool {
	return !slices.ContainsFunc(w.txns, func(t *Txn) bool { return t.Requested > since })
}

// settle completes a write, or leaves it pending.
func (g *Generator) settle(p *open) {
	if !g.W.legacy && g.one(6, "pending") {
		g.pending = append(g.pending, p)
		return
	}
	g.complete(p)
}

func (g *Generator) begin(action, operation string) *open {
	return &open{txn: g.W.Begin(action, operation), keys: map[string]bool{}, groups: map[*Group]bool{}, shared: map[*Group]bool{}}
}

func (g *Generator) action() string {
	if g.W.MoR {
		return "deltacommit"
	}
	return "commit"
}

func (g *Generator) empty(state) {
	if g.one(2, "schema only") {
		g.W.Evolve(pick(g, []string{"add", "widen", "drop"}, "evolve"))
		g.settle(g.begin(g.action(), "ALTER_SCHEMA"))
		return
	}
	g.settle(g.begin(g.action(), "UPSERT"))
}

// insert puts new keys into a new group.
func (g *Generator) insert(s state) {
	keys := s.free
	if g.Copies {
		keys = append(slices.Clone(keys), s.live...)
	}
	keys = some(g, keys, 1, 5, "insert")
	p := g.begin(g.action(), pick(g, []string{"BULK_INSERT", "INSERT"}, "operation"))
	if len(keys) > 0 {
		partition := pick(g, g.Partitions, "partition")
		id := g.newGroup(partition)
		var rows []Row
		for _, k := range keys {
			r := g.row(k)
			r.Deleted = g.one(12, "deleted")
			rows = append(rows, r)
			p.keys[k] = true
			if g.Copies && g.one(6, "copy") {
				rows = append(rows, g.row(k))
				g.Copied[k] = true
			}
			if slices.Contains(s.live, k) {
				g.Copied[k] = true
			}
		}
		if g.W.MoR && g.one(3, "log only") {
			p.txn.Log(partition, id, g.data(rows))
		} else {
			p.txn.Base(partition, id, rows...)
		}
		if g.one(10, "stray") {
			p.txn.Stray(partition, id, rows[0])
		}
		p.groups[g.W.Group(partition, id)] = true
	}
	g.settle(p)
}

// data is a block of whole rows.
func (g *Generator) data(rows []Row) Block {
	return Block{Kind: pick(g, []Kind{Avro, Avro, Parquet, HFile}, "kind"), Rows: rows, Positions: g.one(2, "positions")}
}

// change is what a batch does to one key in one group.
type change struct {
	row    Row
	remove bool // an operation delete: no ordering value
	soft   bool // a delete with the row's ordering value
	part   bool // a partial update
	moved  bool // the key goes to another group
}

// write is an upsert, a delete or a merge over live and new keys.
func (g *Generator) write(s state) {
	w := g.W
	p := g.begin(g.action(), pick(g, []string{"UPSERT", "UPSERT", "DELETE", "UPSERT_PREPPED"}, "operation"))
	changes := map[*Group][]change{}
	fresh := map[string][]Row{} // new groups, by partition
	live := some(g, s.live, 0, 5, "live")
	free := some(g, s.free, 0, 3, "free")
	if p.txn.Operation == "DELETE" {
		free = nil
	}
	for _, k := range live {
		home := s.home[k]
		p.keys[k] = true
		c := change{row: g.row(k)}
		if g.one(3, "same vector") {
			for _, r := range w.Rows(home, completed) {
				if r.Key == k {
					c.row.Vec = r.Vec
				}
			}
		}
		what := g.n(0, 9, "change")
		switch {
		case p.txn.Operation == "DELETE" || what == 6:
			c.remove = true
		case what == 7:
			c.soft = true
		case what == 8: // moves to another partition or group
			c.remove, c.moved = true, true
			g.place(s, k, c.row, home, changes, fresh)
		case what == 9 && w.MoR:
			c.part = true
		}
		changes[home] = append(changes[home], c)
	}
	for _, k := range free {
		p.keys[k] = true
		g.place(s, k, g.row(k), nil, changes, fresh)
	}
	for _, gr := range w.groups {
		if list := changes[gr]; len(list) > 0 {
			g.apply(p, gr, list, slices.Contains(s.open, gr))
		}
	}
	for _, partition := range g.Partitions {
		rows := fresh[partition]
		if len(rows) == 0 {
			continue
		}
		id := g.newGroup(partition)
		if w.MoR && g.one(3, "log only") {
			p.txn.Log(partition, id, g.data(rows))
		} else {
			p.txn.Base(partition, id, rows...)
		}
		p.groups[w.Group(partition, id)] = true
	}
	g.settle(p)
}

// place puts a new row into an existing group other than not, or into a new one.
func (g *Generator) place(s state, key string, r Row, not *Group, changes map[*Group][]change, fresh map[string][]Row) {
	var choice []*Group
	for _, gr := range s.logs {
		if gr != not && (g.W.MoR || slices.Contains(s.open, gr)) {
			choice = append(choice, gr)
		}
	}
	if len(choice) > 0 && !g.one(3, "new group") {
		gr := pick(g, choice, "group")
		changes[gr] = append(changes[gr], change{row: r})
		return
	}
	partition := pick(g, g.Partitions, "partition")
	fresh[partition] = append(fresh[partition], r)
}

// apply writes the changes of one group: a new base file, or a log.
func (g *Generator) apply(p *open, gr *Group, list []change, alone bool) {
	w := g.W
	now := w.current(gr)
	p.groups[gr] = true
	if !w.MoR || alone && len(now.logs) == 0 && g.one(4, "rewrite") {
		p.txn.Base(gr.Partition, gr.ID, g.rewrite(gr, list)...)
		return
	}
	logs := w.foldLogs(now.logs)
	dead := func(key string) bool {
		return slices.ContainsFunc(logs, func(e entry) bool { return e.key == key && e.dead })
	}
	var rows, parts []Row
	var keys []Delete
	for _, c := range list {
		switch {
		case c.remove:
			keys = append(keys, Delete{Key: c.row.Key})
			if !c.moved && g.one(6, "and again") { // deleted and inserted again in one batch
				rows = append(rows, g.row(c.row.Key))
			}
		case c.soft && g.one(2, "as row"):
			r := c.row
			if r.Deleted = !w.Marker || !g.one(2, "marker"); !r.Deleted {
				r.Op = "D"
			}
			rows = append(rows, r)
		case c.soft:
			keys = append(keys, Delete{Key: c.row.Key, Ordered: true, TS: c.row.TS})
		case c.part && !dead(c.row.Key):
			parts = append(parts, c.row)
		default:
			rows = append(rows, c.row)
		}
	}
	var blocks []Block
	if n := len(rows); n > 1 && g.one(3, "two blocks") {
		blocks = append(blocks, g.data(rows[:1]))
		rows = rows[1:]
	}
	if len(rows) > 0 {
		blocks = append(blocks, g.data(rows))
	}
	if len(parts) > 0 {
		cols := pick(g, [][]string{{"ts", Vector}, {"ts", "price"}, {"ts", Vector, "price"}}, "columns")
		if !w.EventTime && g.one(2, "no ts") {
			cols = cols[1:]
		}
		blocks = append(blocks, Block{Kind: pick(g, []Kind{Avro, Parquet}, "kind"), Rows: parts, Partial: cols, Positions: g.one(2, "positions")})
	}
	if len(keys) > 0 {
		b := Block{Kind: Deletes, Keys: keys, Positions: g.one(2, "positions")}
		if g.one(3, "deletes first") {
			blocks = append([]Block{b}, blocks...)
		} else {
			blocks = append(blocks, b)
		}
	}
	p.txn.Log(gr.Partition, gr.ID, blocks...)
	if g.one(8, "second log") {
		p.txn.Log(gr.Partition, gr.ID, blocks[len(blocks)-1])
	}
}

// rewrite is the content of a new base file: the rows of a group with changes merged in, as a copy-on-write writer does it.
func (g *Generator) rewrite(gr *Group, list []change) []Row {
	w := g.W
	var rows []Row
	for _, r := range w.Rows(gr, completed) {
		rows = append(rows, r.Row)
	}
	for _, c := range list {
		at := slices.IndexFunc(rows, func(r Row) bool { return r.Key == c.row.Key })
		switch {
		case at < 0:
			if !c.remove && !c.soft {
				rows = append(rows, c.row)
			}
		case c.remove:
			rows = slices.Delete(rows, at, at+1)
		case w.EventTime && c.row.TS < rows[at].TS:
		case c.soft:
			rows = slices.Delete(rows, at, at+1)
		default:
			rows[at] = c.row
		}
	}
	if g.one(8, "sort") {
		slices.SortStableFunc(rows, func(a, b Row) int { return strings.Compare(b.Key, a.Key) })
	}
	return rows
}

// overwrite is insert_overwrite, insert_overwrite_table or delete_partition.
func (g *Generator) overwrite(s state) {
	w := g.W
	operation := pick(g, []string{"INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE", "DELETE_PARTITION"}, "operation")
	in := func(gr *Group) bool { return true }
	partition := pick(g, g.Partitions, "partition")
	if operation != "INSERT_OVERWRITE_TABLE" {
		in = func(gr *Group) bool { return gr.Partition == partition }
	}
	var out []*Group
	for _, gr := range w.groups {
		if _, ok := gr.slice(completed); ok && in(gr) {
			if !slices.Contains(s.open, gr) {
				return // somebody writes there
			}
			out = append(out, gr)
		}
	}
	p := g.begin("replacecommit", operation)
	keys := slices.Clone(s.free)
	for _, k := range s.live {
		if slices.Contains(out, s.home[k]) {
			keys = append(keys, k)
		}
	}
	old := w.ByKey(w.All(completed))
	if operation != "DELETE_PARTITION" {
		var rows []Row
		for _, k := range some(g, keys, 0, 5, "rows") {
			r := g.row(k)
			if was, ok := old[k]; ok && g.one(2, "same vector") {
				r.Vec = was.Vec
			}
			rows = append(rows, r)
			p.keys[k] = true
		}
		if len(rows) > 0 {
			id := g.newGroup(partition)
			p.txn.Base(partition, id, rows...)
			p.groups[w.Group(partition, id)] = true
		}
	}
	for _, gr := range out {
		p.txn.Replace(gr.Partition, gr.ID)
		p.groups[gr] = true
	}
	g.settle(p)
}

// clustering writes the rows of some groups into new ones.
func (g *Generator) clustering(s state) {
	w := g.W
	in := some(g, s.open, 1, 2, "cluster")
	p := &open{txn: w.Begin("clustering", "CLUSTER", in...), groups: map[*Group]bool{}}
	byPartition := map[string][]Row{}
	for _, gr := range in {
		p.groups[gr] = true
		for _, r := range w.Rows(gr, completed) {
			byPartition[gr.Partition] = append(byPartition[gr.Partition], r.Row)
		}
	}
	sorted := g.one(2, "sort")
	p.finish = func() {
		for _, partition := range g.Partitions {
			rows := byPartition[partition]
			if len(rows) == 0 {
				continue
			}
			if sorted {
				slices.SortStableFunc(rows, func(a, b Row) int { return strings.Compare(a.Key, b.Key) })
			}
			cut := 0
			if len(rows) > 2 && g.one(3, "two outputs") {
				cut = len(rows) / 2
			}
			if cut > 0 {
				p.txn.Base(partition, g.newGroup(partition), rows[:cut]...)
			}
			p.txn.Base(partition, g.newGroup(partition), rows[cut:]...)
		}
		for _, gr := range in {
			p.txn.Replace(gr.Partition, gr.ID)
		}
	}
	g.settle(p)
}

// compaction plans and, now or later, executes a compaction. Until then logs may be appended.
func (g *Generator) compaction(s state) {
	var choice []*Group
	for _, gr := range s.open {
		if len(g.W.current(gr).logs) > 0 {
			choice = append(choice, gr)
		}
	}
	in := some(g, choice, 1, 2, "compact")
	if len(in) == 0 {
		return
	}
	p := &open{txn: g.W.Begin("compaction", "COMPACT", in...), shared: map[*Group]bool{}}
	for _, gr := range in {
		p.shared[gr] = true
	}
	p.finish = func() {
		for _, gr := range in {
			p.txn.Compact(gr.Partition, gr.ID)
		}
	}
	g.settle(p)
}

func (g *Generator) logCompaction(s state) {
	var choice []*Group
	for _, gr := range s.open {
		logs := g.W.current(gr).logs
		instants := map[string]bool{}
		partial := false
		for _, l := range logs {
			instants[l.txn.Requested] = true
			for _, b := range l.blocks {
				partial = partial || b.Partial != nil
			}
		}
		if len(instants) > 1 && !partial {
			choice = append(choice, gr)
		}
	}
	in := some(g, choice, 1, 2, "compact")
	if len(in) == 0 {
		return
	}
	p := &open{txn: g.W.Begin("logcompaction", "LOG_COMPACT", in...), shared: map[*Group]bool{}}
	for _, gr := range in {
		p.shared[gr] = true
	}
	p.finish = func() {
		for _, gr := range in {
			p.txn.CompactLogs(gr.Partition, gr.ID)
		}
	}
	g.settle(p)
}

func (g *Generator) clean(state) {
	done := g.W.Completed()
	g.W.Clean(done[g.n(1, len(done)-1, "retain")])
}

// overlapStep is a step of writers that do not wait for each other: appends to the key's group, services, and ends of what is
// pending, in any order.
func (g *Generator) overlapStep() {
	w, s := g.W, g.look()
	ops := []func(state){g.append, g.append, g.append, g.append}
	if len(g.pending) > 0 {
		ops = append(ops, g.end, g.end, g.end)
	}
	if len(s.open) > 0 {
		ops = append(ops, g.compaction)
	}
	busy := slices.ContainsFunc(g.pending, func(p *open) bool { return p.txn.Pending == "deltacommit" })
	if len(s.open) > 0 && !busy {
		ops = append(ops, g.logCompaction)
	}
	if g.Clean && len(w.Completed()) > 1 {
		ops = append(ops, g.clean)
	}
	pick(g, ops, "op")(s)
}

// append writes logs into the fixed groups of some keys.
func (g *Generator) append(state) {
	const buckets = 2
	changes := map[string][]change{}
	for _, k := range some(g, g.Keys, 1, 6, "keys") {
		i := slices.Index(g.Keys, k)
		c := change{row: g.row(k)}
		switch g.n(0, 7, "change") {
		case 6:
			c.remove = true
		case 7:
			c.soft = true
		}
		at := fmt.Sprintf("%s\x00%d", g.Partitions[i%len(g.Partitions)], i%buckets)
		changes[at] = append(changes[at], c)
	}
	p := g.begin("deltacommit", "UPSERT")
	for _, at := range slices.Sorted(maps.Keys(changes)) {
		partition, bucket, _ := strings.Cut(at, "\x00")
		id := "0000000" + bucket + "-0000-0000-0000-000000000000-0"
		g.apply(p, g.W.group(partition, id), changes[at], false)
	}
	p.groups = nil
	if g.one(2, "overlap") {
		g.pending = append(g.pending, p)
		return
	}
	g.complete(p)
}
