package hudimodel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Txn is one instant: what it wrote, and how far it has got.
type Txn struct {
	// Pending is the action in the names of its requested and inflight files: commit, deltacommit, replacecommit, compaction,
	// logcompaction or clustering.
	Pending string
	// Operation is the operation type in its metadata.
	Operation string
	// Requested and Completed are its times; Completed is empty while it is pending.
	Requested, Completed string
	// Alter, if not nil, changes the content of the instant's data files before they are written, so that their metadata agrees with it.
	Alter func(content []byte) []byte

	w       *World
	label   string
	touched []*Group
	files   []*file
	strays  []string         // files of failed task attempts
	stats   map[string][]any // by partition
	replace map[string][]any
	plan    []*Group
	undone  bool
	schema  string // at its beginning
	names   []string
}

// Action is the action of its completed file.
func (t *Txn) Action() string {
	switch t.Pending {
	case "compaction":
		return "commit"
	case "logcompaction":
		return "deltacommit"
	case "clustering":
		return "replacecommit"
	}
	return t.Pending
}

// Touched are the file groups that it wrote or replaced.
func (t *Txn) Touched() []*Group { return t.touched }

// Begin requests an instant and lets it be inflight. plan are the groups that a table service is planned for.
func (w *World) Begin(pending, operation string, plan ...*Group) *Txn {
	w.tb.Helper()
	return w.BeginAt(w.tick(), pending, operation, plan...)
}

// BeginAt is Begin at a time that was taken before: others may have completed since.
func (w *World) BeginAt(requested, pending, operation string, plan ...*Group) *Txn {
	w.tb.Helper()
	t := &Txn{Pending: pending, Operation: operation, Requested: requested, w: w, stats: map[string][]any{}, plan: plan, names: w.names(),
		schema: w.schema(false, w.names())}
	t.label = fmt.Sprintf("t%d", len(w.txns)+1)
	w.txns = append(w.txns, t)
	args := ""
	for _, g := range plan {
		args += fmt.Sprintf(", w.Group(%q, %q)", g.Partition, g.ID)
	}
	w.log("%s := w.Begin(%q, %q%s)", t.label, pending, operation, args)
	var request []byte
	switch pending {
	case "compaction", "logcompaction":
		request = t.compactionPlan()
	case "clustering":
		request = t.clusteringPlan()
	case "replacecommit":
		m := map[string]any{}
		if operation == "DELETE_PARTITION" {
			m["operationType"], m["version"] = operation, 1
		}
		request = w.container(requestedReplaceSchema, m)
	}
	w.put(t.file("requested"), request)
	var inflight []byte
	if pending == t.Action() {
		inflight = w.container(commitSchema, map[string]any{"partitionToWriteStats": map[string]any{}, "compacted": false,
			"extraMetadata": map[string]any{}, "operationType": operation})
	}
	w.put(t.file("inflight"), inflight)
	return t
}

// Group returns the file group of that name, which must have been begun.
func (w *World) Group(partition, id string) *Group {
	for _, g := range w.groups {
		if g.Partition == partition && g.ID == id {
			return g
		}
	}
	w.tb.Fatalf("model: no file group %s/%s", partition, id)
	return nil
}

// file is the path of one of its pending timeline files.
func (t *Txn) file(state string) string {
	name := t.Requested + "." + t.Pending + "." + state
	if t.Pending == "commit" && state == "inflight" {
		name = t.Requested + ".inflight"
	}
	return ".hoodie/timeline/" + name
}

// slice is the group's slice among completed instants.
func (w *World) current(g *Group) slice {
	s, _ := g.slice(completed)
	return s
}

func (t *Txn) touch(g *Group) {
	if !slices.Contains(t.touched, g) {
		t.touched = append(t.touched, g)
	}
}

func (t *Txn) add(g *Group, f *file, content []byte) {
	f.txn, f.path, f.size = t, join(g.Partition, f.name), len(content)
	g.files, t.files = append(g.files, f), append(t.files, f)
	t.w.put(f.path, content)
	t.touch(g)
}

func (t *Txn) altered(content []byte) []byte {
	if t.Alter == nil {
		return content
	}
	return t.Alter(content)
}

func (t *Txn) token() string {
	return fmt.Sprintf("%d-%d-%d", len(t.files), len(t.w.txns), 7*len(t.w.txns))
}

func (t *Txn) written(rows []Row) []Row {
	rows = slices.Clone(rows)
	for i := range rows {
		if rows[i].Written == "" {
			rows[i].Written = t.Requested
		}
	}
	return rows
}

// Base writes a base file of a group with these rows in this order.
func (t *Txn) Base(partition, id string, rows ...Row) {
	w := t.w
	w.tb.Helper()
	w.log("%s.Base(%q, %q, %s)", t.label, partition, id, goText(rows))
	rows = t.written(rows)
	g := w.group(partition, id)
	before := w.current(g)
	f := &file{name: fmt.Sprintf("%s_%s_%s.parquet", id, t.token(), t.Requested), rows: rows}
	footer := map[string]string{}
	avroWriter := len(rows)%2 == 0 || t.Operation == "UPSERT"
	if avroWriter {
		footer["parquet.avro.schema"], footer["writer.model.name"] = w.schema(true, w.names()), "avro"
	} else {
		footer["org.apache.spark.version"] = "3.5.9"
	}
	if low, high, ok := keyRange(rows, avroWriter); ok && !w.Virtual {
		footer["hoodie_min_record_key"], footer["hoodie_max_record_key"] = low, high
	}
	content := t.altered(w.parquet(rows, w.names(), partition, f.name, footer, []int{0, 1, 2, 3, 4}[(len(w.txns)+len(rows))%5]))
	stat := map[string]any{"fileId": id, "partitionPath": partition, "path": join(partition, f.name), "prevCommit": "null",
		"numWrites": len(rows), "fileSizeInBytes": len(content), "totalWriteBytes": len(content)}
	if !before.empty() {
		stat["prevCommit"] = before.instant()
		if before.base == nil {
			stat["prevCommit"] = "null"
		} else {
			stat["prevBaseFile"] = before.base.name
		}
		stat["totalLogFilesCompacted"] = len(before.logs)
	} else {
		stat["numInserts"] = len(rows)
	}
	t.add(g, f, content)
	if w.CDC && !before.empty() {
		stat["cdcStats"] = t.changeData(partition, id, rows)
	}
	t.stats[partition] = append(t.stats[partition], stat)
}

// Log writes a log file of a group. A second call for one group makes a further version of the file.
func (t *Txn) Log(partition, id string, blocks ...Block) {
	t.w.tb.Helper()
	var text []string
	for _, b := range blocks {
		text = append(text, b.goText())
	}
	t.w.log("%s.Log(%q, %q, %s)", t.label, partition, id, strings.Join(text, ", "))
	t.logFile(t.w.group(partition, id), nil, blocks)
}

func (t *Txn) logFile(g *Group, compacted []string, blocks []Block) {
	w := t.w
	w.tb.Helper()
	now := w.current(g)
	f := &file{log: true, version: 1}
	for _, other := range t.files {
		if other.log && slices.Contains(g.files, other) {
			f.version++
		}
	}
	f.name = fmt.Sprintf(".%s_%s.log.%d_%s", g.ID, t.Requested, f.version, t.token())
	var content []byte
	if w.legacy {
		content = w.legacyLog(f, g, t, now)
	}
	f.from = len(content)
	rows, deletes := 0, 0
	for _, b := range blocks {
		b.Rows, b.Keys = t.written(b.Rows), slices.Clone(b.Keys)
		at := b.settle(now.base)
		baseInstant := ""
		if now.base != nil {
			baseInstant = now.base.txn.Requested
		}
		content = append(content, w.encode(b, t, g.Partition, g.ID, baseInstant, at, compacted)...)
		f.blocks = append(f.blocks, b)
		rows, deletes = rows+len(b.Rows), deletes+len(b.Keys)
	}
	content = t.altered(content)
	stat := map[string]any{"fileId": g.ID, "partitionPath": g.Partition, "path": join(g.Partition, f.name), "prevCommit": t.Requested, "baseFile": "",
		"logFiles": []any{f.name}, "logVersion": f.version, "logOffset": 0, "numWrites": rows, "numUpdateWrites": rows, "numDeletes": deletes,
		"fileSizeInBytes": len(content), "totalWriteBytes": len(content)}
	if w.legacy {
		names := []any{f.name}
		for _, l := range now.logs {
			names = append(names, l.name)
		}
		stat["logFiles"], stat["prevCommit"] = names, cmp.Or(now.instant(), t.Requested)
		if now.base != nil {
			stat["baseFile"] = now.base.name
		}
	}
	if w.CDC && now.base != nil {
		stat["prevCommit"], stat["baseFile"] = now.instant(), now.base.name
	}
	if compacted != nil {
		stat["prevCommit"], stat["totalLogFilesCompacted"] = now.instant(), len(now.logs)
	}
	t.add(g, f, content)
	t.stats[g.Partition] = append(t.stats[g.Partition], stat)
}

// legacyLog names a log file as version 6 does and returns what is in it already: a commit appends to the slice's newest log, or, each
// third time, begins a new one.
func (w *World) legacyLog(f *file, g *Group, t *Txn, now slice) []byte {
	f.version = 1
	for _, l := range g.files { // those of this instant are among them
		if l.log && (now.base == nil || l.txn.Requested > now.base.txn.Requested) {
			f.version, f.name = l.version, l.name
		}
	}
	if n := len(now.logs); n > 0 && n%3 != 0 || len(t.files) > 0 && slices.Contains(g.files, t.files[len(t.files)-1]) {
		b, _, err := w.Store.ReadFile(w.tb.Context(), join(g.Partition, f.name))
		if err != nil {
			w.tb.Fatalf("model: %v", err)
		}
		return b
	} else if n > 0 {
		f.version++
	}
	f.name = fmt.Sprintf(".%s_%s.log.%d_%s", g.ID, cmp.Or(now.instant(), t.Requested), f.version, t.token())
	return nil
}

// Replace makes the instant replace a group.
func (t *Txn) Replace(partition, id string) {
	t.w.log("%s.Replace(%q, %q)", t.label, partition, id)
	g := t.w.Group(partition, id)
	g.replaced = append(g.replaced, t)
	if t.replace == nil {
		t.replace = map[string][]any{}
	}
	t.replace[partition] = append(t.replace[partition], id)
	t.touch(g)
}

// Compact writes the base file of a compaction: the planned group's rows as they were when it began.
func (t *Txn) Compact(partition, id string) {
	t.w.tb.Helper()
	t.w.log("%s.Compact(%q, %q)", t.label, partition, id)
	defer t.w.quiet()()
	t.Base(partition, id, t.w.rowsBefore(t, t.w.Group(partition, id))...)
}

// CompactLogs writes the log file of a log compaction: what the logs of the planned group say about each key.
func (t *Txn) CompactLogs(partition, id string) {
	t.w.tb.Helper()
	t.w.log("%s.CompactLogs(%q, %q)", t.label, partition, id)
	g := t.w.Group(partition, id)
	s, _ := g.slice(t.planned)
	var instants []string
	for _, l := range t.w.effectiveFiles(s.logs) {
		if !slices.Contains(instants, l.txn.Requested) {
			instants = append(instants, l.txn.Requested)
		}
	}
	var data, dead Block
	dead.Kind = Deletes
	for _, e := range t.w.foldLogs(s.logs) {
		if e.dead {
			dead.Keys = append(dead.Keys, Delete{Key: e.key, Ordered: e.ordered && !t.w.timeless(e), TS: e.ts, Seq: e.seq})
			continue
		}
		r := e.row
		r.Written = "" // log compaction rewrites the commit time
		data.Rows = append(data.Rows, r)
	}
	var blocks []Block
	if len(data.Rows) > 0 {
		blocks = append(blocks, data)
	}
	if len(dead.Keys) > 0 {
		blocks = append(blocks, dead)
	}
	t.logFile(g, instants, blocks)
	t.files[len(t.files)-1].compacts(instants)
}

// planned says which instants a table service's plan saw: those completed before it was requested.
func (t *Txn) planned(o *Txn) bool { return o.Completed != "" && o.Completed < t.Requested }

func (w *World) quiet() func() {
	n := len(w.script)
	return func() { w.script = w.script[:n] }
}

// Stray leaves a file of a failed task attempt: it has the instant in its name and is not in its metadata.
func (t *Txn) Stray(partition, id string, rows ...Row) {
	t.w.tb.Helper()
	t.w.log("%s.Stray(%q, %q, %s)", t.label, partition, id, goText(rows))
	t.w.group(partition, id)
	name := fmt.Sprintf("%s_9-9-9_%s.parquet", id, t.Requested)
	t.strays = append(t.strays, join(partition, name))
	t.w.put(join(partition, name), t.w.parquet(t.written(rows), t.w.names(), partition, name, map[string]string{}, 0))
}

// Complete completes the instant now.
func (t *Txn) Complete() {
	t.w.log("%s.Complete()", t.label)
	t.complete(t.w.tick())
}

// CompleteAs completes the instant with the completion time of another one.
func (t *Txn) CompleteAs(o *Txn) {
	t.w.log("%s.CompleteAs(%s)", t.label, o.label)
	t.complete(o.Completed)
}

func (t *Txn) complete(at string) {
	w := t.w
	w.tb.Helper()
	t.Completed = at
	stats := map[string]any{}
	for p, list := range t.stats {
		stats[p] = list
	}
	m := map[string]any{"partitionToWriteStats": stats, "compacted": t.Pending == "compaction" || t.Pending == "logcompaction",
		"extraMetadata": map[string]any{"schema": t.schema}, "operationType": t.Operation}
	if t.Pending == "logcompaction" {
		m["extraMetadata"] = map[string]any{}
	}
	schema := commitSchema
	if t.Action() == "replacecommit" {
		schema = replaceSchema
		replaced := map[string]any{}
		for p, list := range t.replace {
			replaced[p] = list
		}
		m["partitionToReplaceFileIds"] = replaced
	}
	w.newest = max(w.newest, at)
	w.put(fmt.Sprintf(".hoodie/timeline/%s_%s.%s", t.Requested, at, t.Action()), w.container(schema, m))
}

// String is the name of the instant in the script.
func (t *Txn) String() string { return t.label }
