package simulation

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"tidemark/internal/hudi/hudimodel"
)

// workload is the simulated writer: it keeps keys in buckets, so that a key is in one file group at a time.
type workload struct {
	w       *hudimodel.World
	pending []*inflight
	ids     int
	keys    []string
}

// inflight is a pending instant of the writer and the rest of its work.
type inflight struct {
	txn     *hudimodel.Txn
	buckets []int
	append  bool // only logs: others may append to the same groups
	finish  func()
}

const buckets = 2

// Operations of the writer.
const (
	opUpsert = iota
	opDelete
	opBegin // an instant that stays pending
	opEnd   // the oldest pending instant completes
	opAbort // a pending instant is rolled back
	opCompact
	opCluster
	opClean
	opArchive
	opSavepoint
	opRestore
	opUndo // the newest completed instant is rolled back
	opEmpty
	opTwins // two instants complete at one time
	opOverwrite
	opLate     // an instant takes its completion time before another one, and is seen after it
	opFinish   // everything that is pending ends; not drawn
	operations = opFinish
)

var operationNames = []string{"upsert", "delete", "begin", "end", "abort", "compact", "cluster", "clean", "archive", "savepoint", "restore", "undo", "empty commit",
	"two commits with one completion time", "overwrite", "late commit", "finish"}

func newWorkload(w *hudimodel.World) *workload {
	return &workload{w: w, keys: []string{"a", "b", "c", "d", "e", "f"}}
}

func operation(e Event) int {
	if e[1] == opFinish {
		return opFinish
	}
	// Half of what a writer does is writing.
	if e[1]%2 == 0 {
		return []int{opUpsert, opUpsert, opDelete, opBegin, opEnd, opEnd}[int(e[1]/2)%6]
	}
	return int(e[1]/2) % operations
}

func (l *workload) name(e Event) string { return operationNames[operation(e)] }

// run does one operation. What cannot be done now is left.
func (l *workload) run(e Event) {
	w, n := l.w, int(e[2])
	switch operation(e) {
	case opUpsert:
		l.upsert(n, 0)
	case opDelete:
		l.upsert(n, n|1)
	case opBegin:
		if len(l.pending) < 3 {
			if i := l.prepare(n, n/16); i != nil {
				l.pending = append(l.pending, i)
			}
		}
	case opEnd:
		if len(l.pending) > 0 {
			l.end(l.take(n))
		}
	case opAbort:
		if len(l.pending) > 0 {
			l.take(n).txn.Undo()
		}
	case opCompact:
		l.compact(n)
	case opCluster:
		l.cluster(n)
	case opClean:
		l.clean(n)
	case opArchive:
		w.Archive(1 + n%4)
	case opSavepoint:
		l.savepoint()
	case opRestore:
		l.restore(n)
	case opUndo:
		l.undo()
	case opEmpty:
		l.begin("UPSERT").Complete()
	case opTwins:
		l.twins(n)
	case opOverwrite:
		l.overwrite(n)
	case opLate:
		l.late(n)
	case opFinish:
		for len(l.pending) > 0 {
			l.end(l.take(0))
		}
	}
}

func (l *workload) take(n int) *inflight {
	i := n % len(l.pending)
	p := l.pending[i]
	l.pending = slices.Delete(l.pending, i, i+1)
	return p
}

func (l *workload) end(p *inflight) {
	if p.finish != nil {
		p.finish()
	}
	p.txn.Complete()
}

func (l *workload) begin(operation string) *hudimodel.Txn {
	if l.w.MoR {
		return l.w.Begin("deltacommit", operation)
	}
	return l.w.Begin("commit", operation)
}

// group returns the group that holds a bucket now, nil if there is none.
func (l *workload) group(bucket int) *hudimodel.Group {
	var found *hudimodel.Group
	for _, g := range l.w.Groups() {
		if strings.HasPrefix(g.ID, fmt.Sprintf("%d-", bucket)) && l.w.Visible(g) {
			found = g
		}
	}
	return found
}

func (l *workload) newID(bucket int) string {
	l.ids++
	return fmt.Sprintf("%d-%04d-0000-0000-000000000000-0", bucket, l.ids)
}

// free says whether a bucket may be written: nobody else does, or only by appending and so does the caller.
func (l *workload) free(bucket int, append bool) bool {
	return !slices.ContainsFunc(l.pending, func(p *inflight) bool { return slices.Contains(p.buckets, bucket) && !(append && p.append) })
}

func vector(n int) []byte {
	if n%13 == 12 {
		return nil
	}
	var b []byte
	for _, x := range []float32{float32(n%5) - 2, float32(n%7) - 3} {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x+0.25))
	}
	return b
}

func (l *workload) upsert(n, dead int) {
	if p := l.prepare(n, dead); p != nil {
		l.end(p)
	}
}

// prepare begins an instant that writes some keys, and removes those of dead.
func (l *workload) prepare(n, dead int) *inflight {
	if n == 255 {
		n = 63
	}
	changed, removed := map[int][]string{}, map[int][]string{}
	for i, k := range l.keys {
		if n&(1<<i) == 0 {
			continue
		}
		if dead&(1<<i) != 0 {
			removed[i%buckets] = append(removed[i%buckets], k)
		} else {
			changed[i%buckets] = append(changed[i%buckets], k)
		}
	}
	var in []int
	for b := range buckets {
		if len(changed[b])+len(removed[b]) > 0 {
			in = append(in, b)
		}
	}
	logs := l.w.MoR
	for _, b := range in {
		if l.w.MoR && l.group(b) == nil {
			logs = false
		}
	}
	for _, b := range in {
		if !l.free(b, logs) {
			return nil
		}
	}
	t := l.begin("UPSERT")
	for _, b := range in {
		l.write(t, b, changed[b], removed[b], n, logs)
	}
	return &inflight{txn: t, buckets: in, append: logs}
}

func (l *workload) row(k string, n int) hudimodel.Row {
	return hudimodel.Row{Key: k, TS: int64(n), Vec: vector(n*3 + int(k[0])*5 + len(l.w.Txns()))}
}

func (l *workload) write(t *hudimodel.Txn, b int, changed, removed []string, n int, logs bool) {
	g := l.group(b)
	if logs {
		var blocks []hudimodel.Block
		if len(changed) > 0 {
			data := hudimodel.Block{}
			for _, k := range changed {
				data.Rows = append(data.Rows, l.row(k, n))
			}
			blocks = append(blocks, data)
		}
		if len(removed) > 0 {
			dead := hudimodel.Block{Kind: hudimodel.Deletes}
			for _, k := range removed {
				dead.Keys = append(dead.Keys, hudimodel.Delete{Key: k})
			}
			blocks = append(blocks, dead)
		}
		t.Log(g.Partition, g.ID, blocks...)
		return
	}
	id := ""
	var rows []hudimodel.Row
	if g != nil {
		id = g.ID
		for _, r := range l.w.Current(g) {
			if !slices.Contains(changed, r.Key) && !slices.Contains(removed, r.Key) {
				rows = append(rows, r.Row)
			}
		}
	} else {
		id = l.newID(b)
	}
	for _, k := range changed {
		rows = append(rows, l.row(k, n))
	}
	t.Base("", id, rows...)
}

// exclusive returns the groups of buckets that nobody writes.
func (l *workload) exclusive(n int) (in []*hudimodel.Group, taken []int) {
	for b := range buckets {
		if g := l.group(b); g != nil && l.free(b, false) && (n&(1<<b) != 0 || n < 4) {
			in, taken = append(in, g), append(taken, b)
		}
	}
	return in, taken
}

func (l *workload) compact(n int) {
	if l.w.MoR && !slices.ContainsFunc(l.w.Groups(), l.w.HasLogs) {
		l.upsert(n|1, 0)
	}
	in, taken := l.exclusive(n % 4)
	in = slices.DeleteFunc(in, func(g *hudimodel.Group) bool { return !l.w.HasLogs(g) })
	if len(in) == 0 {
		return
	}
	t := l.w.Begin("compaction", "COMPACT", in...)
	p := &inflight{txn: t, buckets: taken, append: true, finish: func() {
		for _, g := range in {
			t.Compact(g.Partition, g.ID)
		}
	}}
	if n >= 128 {
		l.pending = append(l.pending, p)
		return
	}
	l.end(p)
}

func (l *workload) cluster(n int) {
	in, taken := l.exclusive(n % 4)
	if len(in) == 0 {
		return
	}
	t := l.w.Begin("clustering", "CLUSTER", in...)
	p := &inflight{txn: t, buckets: taken, finish: func() {
		for i, g := range in {
			var rows []hudimodel.Row
			for _, r := range l.w.Current(g) {
				rows = append(rows, r.Row)
			}
			if len(rows) > 0 {
				t.Base("", l.newID(taken[i]), rows...)
			}
			t.Replace(g.Partition, g.ID)
		}
	}}
	if n >= 128 {
		l.pending = append(l.pending, p)
		return
	}
	l.end(p)
}

func (l *workload) overwrite(n int) {
	in, taken := l.exclusive(n % 4)
	if len(in) == 0 {
		return
	}
	t := l.w.Begin("replacecommit", "INSERT_OVERWRITE")
	for i, g := range in {
		t.Base("", l.newID(taken[i]), l.row(l.keys[taken[i]], n))
		t.Replace(g.Partition, g.ID)
	}
	t.Complete()
}

func (l *workload) twins(n int) {
	a := l.prepare(1+n%21, 0)
	if a == nil {
		return
	}
	l.pending = append(l.pending, a)
	b := l.prepare(2, 0)
	l.pending = l.pending[:len(l.pending)-1]
	l.end(a)
	if b == nil {
		return
	}
	b.txn.CompleteAs(a.txn)
}

func (l *workload) late(n int) {
	a := l.prepare(1+n%63, n/8)
	if a == nil {
		return
	}
	l.pending = append(l.pending, a)
	at := l.w.Tick()
	b := l.prepare(1+(n/2)%63, 0)
	if b == nil {
		return
	}
	l.end(b)
	l.pending = slices.DeleteFunc(l.pending, func(p *inflight) bool { return p == a })
	a.txn.CompleteAt(at)
}

func (l *workload) clean(n int) {
	done := l.w.Completed()
	if keep := 1 + n%3; len(done) > keep {
		l.w.Clean(done[len(done)-keep])
	}
}

func (l *workload) savepoint() {
	done := l.w.Completed()
	newest := done[len(done)-1]
	if len(l.pending) == 0 && len(l.w.Saved()) == 0 && !newest.InArchive() {
		l.w.Savepoint(newest)
	}
}

// restore goes back to a savepoint. Without one it takes one and writes first, so that a restore is not a rare thing.
func (l *workload) restore(n int) {
	if len(l.w.Saved()) == 0 {
		l.savepoint()
		l.upsert(n, 0)
	}
	saved := l.w.Saved()
	if len(saved) == 0 || !l.w.Effective(saved[0]) {
		return
	}
	var after []*hudimodel.Txn
	for _, t := range l.w.Txns() {
		if t.Requested > saved[0].Requested {
			after = append(after, t)
		}
	}
	if len(after) == 0 || !l.w.CanUndo(after...) {
		return
	}
	l.pending = nil
	l.w.Restore(saved[0])
}

func (l *workload) undo() {
	done := l.w.Completed()
	newest := done[len(done)-1]
	if len(done) < 2 || len(l.pending) > 0 || !l.w.CanUndo(newest) {
		return
	}
	newest.Undo()
}

// archiveMetadata plays the metadata table's archiver: all commits of ours but the file-listing one leave its active timeline for its archive.
func (s *sim) archiveMetadata() int { return s.w.ArchiveMetadata() }
