package hudimodel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

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
				r.Vec, r.Vec2 = was.Vec, was.Vec2
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
