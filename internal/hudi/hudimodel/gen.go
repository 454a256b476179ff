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
	// Copies lets inserts make further copies of a record key.
	Copies bool

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

// CompositePalette are record keys of two columns.
var CompositePalette = []string{CompositeKey("a", "en"), CompositeKey("a", "de"), CompositeKey("b", "en"), CompositeKey("b", ""), CompositeKey("", "en"),
	CompositeKey("a:b,c", "x:y"), CompositeKey("p|q/r", "de"), CompositeKey("日本", "\U00010348"), CompositeKey("é", " "), CompositeKey(strings.Repeat("long/", 400), "en")}

// Partitionings are sets of partitions of every kind.
var Partitionings = [][]string{{""}, {"eu", "us", "ap"}, {"2026/01/01", "2026/01/02", "2026/02/01"}, {"region=a%2Fb", "region=sp ace", "region=日本"}}

// NewGenerator draws the shape of a table and returns it without commits.
func NewGenerator(w *World, t *rapid.T) *Generator {
	g := &Generator{W: w, t: t, ids: map[string]int{}}
	keys := Palette
	if w.Composite {
		keys = CompositePalette
	}
	g.Keys = keys[:g.n(6, len(keys), "keys")]
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
	r := Row{Key: key, TS: int64(g.n(1, 9, "ts")), Vec: g.vector()}
	if g.W.TwoOrderings {
		r.TS, r.Seq = (r.TS+2)/3, []string{"a", "b", "ба", "z"}[g.n(0, 3, "seq")]
	}
	if g.W.Second {
		r.Vec2 = g.vector()
	}
	return r
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

// settle completes a write, or leaves it pending. In the time of version 6 a failed one is rolled back at once.
func (g *Generator) settle(p *open) {
	if g.W.legacy && g.one(5, "failed") {
		p.txn.Rollback()
		return
	}
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
