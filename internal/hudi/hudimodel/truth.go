package hudimodel

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"tidemark/internal/hudi/avrox"
)

// Live is a row that a slice shows, and where it is.
type Live struct {
	Row
	Partition, FileID, BaseInstant string
	Position                       int64 // in the base file; -1 if a log of the slice has the key
}

// In says whether an instant is in a snapshot. It is asked about completed instants.
type In func(*Txn) bool

func completed(*Txn) bool { return true }

// Completed returns the completed instants by completion, then requested time.
func (w *World) Completed() []*Txn {
	var out []*Txn
	for _, t := range w.txns {
		if t.Completed != "" {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, compareDone)
	return out
}

func compareDone(a, b *Txn) int {
	return cmp.Or(strings.Compare(a.Completed, b.Completed), strings.Compare(a.Requested, b.Requested))
}

type slice struct {
	base *file
	logs []*file
}

func (s slice) empty() bool { return s.base == nil && len(s.logs) == 0 }

func (s slice) files() []*file {
	if s.base == nil {
		return s.logs
	}
	return append([]*file{s.base}, s.logs...)
}

func (s slice) instant() string {
	if s.base != nil {
		return s.base.txn.Requested
	}
	low := ""
	for _, l := range s.logs {
		if low == "" || l.txn.Requested < low {
			low = l.txn.Requested
		}
	}
	return low
}

// slice is what the group shows in a snapshot: the base file requested last, and the logs that completed at or after its
// request, in the order of their names. ok is false if it shows nothing.
func (g *Group) slice(in In) (s slice, ok bool) {
	for _, t := range g.replaced {
		if t.Completed != "" && in(t) {
			return slice{}, false
		}
	}
	for _, f := range g.files {
		if !f.log && f.txn.Completed != "" && in(f.txn) && (s.base == nil || f.txn.Requested > s.base.txn.Requested) {
			s.base = f
		}
	}
	for _, f := range g.files {
		if f.log && f.txn.Completed != "" && in(f.txn) && (s.base == nil || f.txn.Completed >= s.base.txn.Requested) {
			s.logs = append(s.logs, f)
		}
	}
	slices.SortFunc(s.logs, func(a, b *file) int {
		return cmp.Or(strings.Compare(a.txn.Requested, b.txn.Requested), cmp.Compare(a.version, b.version))
	})
	return s, !s.empty()
}

// Gone says whether a file of the group's slice was cleaned away.
func (g *Group) Gone(in In) bool {
	s, _ := g.slice(in)
	return slices.ContainsFunc(s.files(), func(f *file) bool { return f.gone })
}

// entry is what logs say about one key.
type entry struct {
	key     string
	dead    bool
	block   bool // dead by an entry of a delete block
	ordered bool // a delete with an ordering value
	ts      int64
	seq     string
	row     Row
	cols    []string // columns that row has; nil: all
}

// effectiveFiles puts the output of a log compaction at the place of the newest log that it replaces.
func (w *World) effectiveFiles(logs []*file) []*file {
	byInstant := map[string]*file{}
	inner := map[string]bool{}
	for _, f := range logs {
		if len(f.compacted) > 0 {
			byInstant[f.txn.Requested] = f
			for _, i := range f.compacted {
				inner[i] = true
			}
		}
	}
	var holds func(f *file, instant string) bool
	holds = func(f *file, instant string) bool {
		for _, i := range f.compacted {
			if i == instant || byInstant[i] != nil && holds(byInstant[i], instant) {
				return true
			}
		}
		return false
	}
	newest := map[*file]*file{} // outermost output → newest log it replaces
	owner := map[*file]*file{}
	for _, l := range logs {
		if len(l.compacted) > 0 {
			continue
		}
		for _, f := range byInstant {
			if !inner[f.txn.Requested] && holds(f, l.txn.Requested) {
				owner[l], newest[f] = f, l
			}
		}
	}
	var out []*file
	for _, l := range logs {
		switch o := owner[l]; {
		case len(l.compacted) > 0:
		case o == nil:
			out = append(out, l)
		case newest[o] == l:
			out = append(out, o)
		}
	}
	return out
}

// foldLogs merges all log records by key, in the order in which the keys first occur.
func (w *World) foldLogs(logs []*file) []entry {
	var out []entry
	put := func(e entry) {
		for i := range out {
			if out[i].key == e.key {
				out[i] = w.fold(out[i], e)
				return
			}
		}
		out = append(out, e)
	}
	for _, f := range w.effectiveFiles(logs) {
		for _, b := range f.blocks {
			for _, r := range b.Rows {
				put(entry{key: r.Key, row: r, ts: r.TS, seq: r.Seq, cols: b.Partial, dead: b.Partial == nil && w.deleted(r), ordered: true})
			}
			for _, d := range b.Keys {
				put(entry{key: d.Key, dead: true, block: true, ordered: d.Ordered, ts: d.TS, seq: d.Seq})
			}
		}
	}
	return out
}

// timeless says that an entry is a delete without ordering value. Of two ordering columns one is always there.
func (w *World) timeless(e entry) bool {
	return e.dead && (!e.ordered || !w.TwoOrderings && w.nullTS(e.key))
}

// fold is what two log records of one key leave.
func (w *World) fold(old, now entry) entry {
	switch {
	case !w.EventTime:
		return overlay(now, old)
	case now.block && w.timeless(old):
		return old
	case w.timeless(now) || w.timeless(old):
		return now
	case w.compare(now.key, now.ts, now.seq, old.ts, old.seq) >= 0:
		return overlay(now, old)
	}
	return overlay(old, now)
}

// overlay fills in what a partial update leaves out.
func overlay(winner, other entry) entry {
	if winner.dead || winner.cols == nil || other.dead {
		return winner
	}
	out := winner
	out.row = other.row
	out.row.Written = winner.row.Written
	if slices.Contains(winner.cols, "ts") {
		out.row.TS = winner.row.TS
	}
	if slices.Contains(winner.cols, "seq") {
		out.row.Seq = winner.row.Seq
	}
	if slices.Contains(winner.cols, Vector) {
		out.row.Vec = winner.row.Vec
	}
	if slices.Contains(winner.cols, Vector2) {
		out.row.Vec2 = winner.row.Vec2
	}
	out.ts, out.seq, out.cols = out.row.TS, out.row.Seq, nil
	if other.cols != nil {
		out.cols = append(slices.Clone(winner.cols), other.cols...)
	}
	return out
}

// final is what a log record leaves of a base row.
func (w *World) final(base Row, e entry) (Row, bool) {
	if w.EventTime && !w.timeless(e) && w.compare(base.Key, e.ts, e.seq, base.TS, base.Seq) < 0 {
		return base, true
	}
	if e.dead {
		return Row{}, false
	}
	return overlay(e, entry{row: base, ts: base.TS}).row, true
}

// Rows returns what a group shows in a snapshot: rows of the base file in its order, then those that only logs have.
func (w *World) Rows(g *Group, in In) []Live {
	s, ok := g.slice(in)
	if !ok {
		return nil
	}
	logs := w.foldLogs(s.logs)
	find := func(key string) int { return slices.IndexFunc(logs, func(e entry) bool { return e.key == key }) }
	used := map[int]bool{}
	var out []Live
	add := func(r Row, position int64) {
		out = append(out, Live{Row: r, Partition: g.Partition, FileID: g.ID, BaseInstant: s.instant(), Position: position})
	}
	if s.base != nil {
		for i, r := range s.base.rows {
			at := find(r.Key)
			switch {
			case at < 0: // shown even if it marks itself as deleted: only log records are asked
				add(r, int64(i))
			case used[at]: // a further copy of the key is not merged
				add(r, -1)
			default:
				used[at] = true
				if now, alive := w.final(r, logs[at]); alive {
					add(now, -1)
				}
			}
		}
	}
	for i, e := range logs {
		if !used[i] && !e.dead {
			add(e.row, -1)
		}
	}
	return out
}

// rowsBefore is what a table service reads of a group: its rows when the service was planned.
func (w *World) rowsBefore(t *Txn, g *Group) []Row {
	var out []Row
	for _, r := range w.Rows(g, t.planned) {
		out = append(out, r.Row)
	}
	return out
}

// All returns the rows of the table in a snapshot.
func (w *World) All(in In) []Live {
	var out []Live
	for _, g := range w.groups {
		out = append(out, w.Rows(g, in)...)
	}
	return out
}

// later orders copies of one key: the one written last counts.
func (w *World) later(a, b Live) bool {
	done := func(requested string) string {
		for _, t := range w.txns {
			if t.Requested == requested {
				return t.Completed
			}
		}
		return ""
	}
	return cmp.Or(strings.Compare(done(a.Written), done(b.Written)), strings.Compare(a.Written, b.Written), strings.Compare(a.Partition, b.Partition),
		strings.Compare(a.FileID, b.FileID), cmp.Compare(a.Position, b.Position)) > 0
}

// ByKey leaves of each key the copy that counts.
func (w *World) ByKey(rows []Live) map[string]Live {
	out := map[string]Live{}
	for _, r := range rows {
		if old, ok := out[r.Key]; !ok || w.later(r, old) {
			out[r.Key] = r
		}
	}
	return out
}

// Indexable says whether a stored vector can have a posting.
func (w *World) Indexable(vec []byte, cosine bool) bool {
	if len(vec) != w.VectorBytes() {
		return false
	}
	zero := true
	for i := range w.Dim {
		var x float32
		switch w.Element {
		case avrox.ElementInt8:
			x = float32(int8(vec[i]))
		case avrox.ElementDouble:
			x = float32(math.Float64frombits(binary.LittleEndian.Uint64(vec[8*i:])))
		default:
			x = math.Float32frombits(binary.LittleEndian.Uint32(vec[4*i:]))
		}
		if x != x || x > math.MaxFloat32 || x < -math.MaxFloat32 {
			return false
		}
		zero = zero && x == 0
	}
	return !(zero && cosine)
}

// Counts are the rows per class that a unit of instants makes, from whole slices before and after.
type Counts struct {
	Insert, Update, Refresh, Delete int64
	// Unindexable are all rows after that cannot be indexed; Lost those of them that could be before.
	Unindexable, Lost int64
}

// Diff compares a vector column in the touched groups of a unit of instants before and after it.
func (w *World) Diff(unit []*Txn, before In, column string, cosine bool) Counts {
	after := func(t *Txn) bool { return before(t) || slices.Contains(unit, t) }
	var touched []*Group
	for _, t := range unit {
		for _, g := range t.touched {
			if !slices.Contains(touched, g) {
				touched = append(touched, g)
			}
		}
	}
	var was, is []Live
	for _, g := range touched {
		was = append(was, w.Rows(g, before)...)
		is = append(is, w.Rows(g, after)...)
	}
	a, b := w.ByKey(was), w.ByKey(is)
	var c Counts
	for key, now := range b {
		old, there := a[key]
		had, has := there && w.Indexable(old.Vector(column), cosine), w.Indexable(now.Vector(column), cosine)
		if !has {
			c.Unindexable++
		}
		switch {
		case !had && has:
			c.Insert++
		case had && !has:
			c.Delete++
			c.Lost++
		case had && string(old.Vector(column)) != string(now.Vector(column)):
			c.Update++
		case had && (old.Partition != now.Partition || old.FileID != now.FileID || old.BaseInstant != now.BaseInstant || old.Position != now.Position):
			c.Refresh++
		}
	}
	for key, old := range a {
		if _, there := b[key]; !there && w.Indexable(old.Vector(column), cosine) {
			c.Delete++
		}
	}
	return c
}
