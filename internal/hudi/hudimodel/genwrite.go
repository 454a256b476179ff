package hudimodel

import (
	"slices"
	"strings"
)

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
					c.row.Vec, c.row.Vec2 = r.Vec, r.Vec2
					if w.Second && g.one(2, "one of two") {
						c.row.Vec2 = g.vector()
					}
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
		case what == 9 && w.MoR && !w.Virtual: // a partial record has no key but the stored one
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
	dead := func(key string) bool { // a partial update over a delete that lost is defined in event time only
		return !w.EventTime && slices.ContainsFunc(logs, func(e entry) bool { return e.key == key && e.dead })
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
			keys = append(keys, Delete{Key: c.row.Key, Ordered: true, TS: c.row.TS, Seq: c.row.Seq})
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
		choice := [][]string{{"ts", Vector}, {"ts", "price"}, {"ts", Vector, "price"}}
		if w.Second {
			choice = append(choice, []string{"ts", Vector2}, []string{"ts", "price", Vector2, Vector})
		}
		cols := pick(g, choice, "columns")
		switch {
		case w.EventTime && w.TwoOrderings:
			cols = append([]string{"seq"}, cols...)
		case !w.EventTime && g.one(2, "no ts"):
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
		case w.EventTime && w.compare(c.row.Key, c.row.TS, c.row.Seq, rows[at].TS, rows[at].Seq) < 0:
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
