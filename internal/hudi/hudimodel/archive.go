package hudimodel

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
)

// history is the archived timeline.
type history struct {
	dir      string
	rows     map[string]bool // requested times of the data writes that it has
	version  int
	files    []level
	undoings []doing // completed rollbacks and cleans that are on the active timeline
}

type level struct {
	name    string
	size    int
	level   int
	entries []entryRow
}

type entryRow struct {
	requested, completed, action string
	metadata, plan               []byte
}

// doing is a completed instant that is not a data write.
type doing struct{ requested, completed, action string }

// mergeLevels is how many files of level 0 the archive gathers before it merges them.
const mergeLevels = 3

// Archive moves the oldest completed data writes to the archived timeline, as many as leave keep of them, and the rollbacks requested
// before the last one. It passes no pending instant, no savepoint, and no replacement whose files are still there. It returns
// how many it moved.
func (w *World) Archive(keep int) int {
	w.tb.Helper()
	w.log("w.Archive(%d)", keep)
	txns := slices.Clone(w.txns)
	slices.SortFunc(txns, func(a, b *Txn) int { return strings.Compare(a.Requested, b.Requested) })
	var take []*Txn
	left := 0
	for _, t := range txns {
		if w.Effective(t) && !w.history.rows[t.Requested] {
			left++
		}
	}
	for _, t := range txns {
		if t.undone || w.history.rows[t.Requested] {
			continue
		}
		if t.Completed == "" || left <= keep || slices.Contains(w.saved, t) || w.replacesWhatIsThere(t) {
			break
		}
		take, left = append(take, t), left-1
	}
	if len(take) == 0 {
		return 0
	}
	var rows []entryRow
	var remove []string
	for _, t := range take {
		r := entryRow{t.Requested, t.Completed, t.Action(), w.bytes(t.completedFile()), nil}
		if plan := w.bytes(t.file("requested")); len(plan) > 0 {
			r.plan = plan
		}
		rows = append(rows, r)
		remove = append(remove, t.file("requested"), t.file("inflight"), t.completedFile())
	}
	last := take[len(take)-1].Requested
	w.history.undoings = slices.DeleteFunc(w.history.undoings, func(d doing) bool {
		if d.requested >= last {
			return false
		}
		name := ".hoodie/timeline/" + d.requested
		done := name + "_" + d.completed + "." + d.action
		rows = append(rows, entryRow{d.requested, d.completed, d.action, w.bytes(done), w.bytes(name + "." + d.action + ".requested")})
		remove = append(remove, name+"."+d.action+".requested", name+"."+d.action+".inflight", done)
		return true
	})
	if w.history.rows == nil {
		w.history.rows = map[string]bool{}
	}
	w.history.dir = ".hoodie/timeline/history/"
	w.writeLevel(&w.history, rows)
	for _, t := range take {
		w.history.rows[t.Requested] = true
	}
	for _, p := range remove {
		w.remove(p)
	}
	return len(take)
}

// replacesWhatIsThere says whether the instant replaced groups whose files the cleaner has not taken.
func (w *World) replacesWhatIsThere(t *Txn) bool {
	for _, g := range w.groups {
		if slices.Contains(g.replaced, t) && slices.ContainsFunc(g.files, func(f *file) bool { return !f.gone }) {
			return true
		}
	}
	return false
}

func (w *World) bytes(p string) []byte {
	b, _, err := w.Store.ReadFile(w.tb.Context(), p)
	if err != nil {
		w.tb.Fatalf("model: %v", err)
	}
	return b
}

// writeLevel writes one file of level 0, merges when there are enough, then the manifest, then the version file, as Hudi does.
func (w *World) writeLevel(h *history, rows []entryRow) {
	h.files = append(h.files, w.levelFile(h, 0, rows))
	w.publish(h)
	if n := len(h.files); n >= mergeLevels && h.files[n-mergeLevels].level == 0 {
		var all []entryRow
		for _, f := range h.files[n-mergeLevels:] {
			all = append(all, f.entries...)
		}
		old := slices.Clone(h.files[n-mergeLevels:])
		h.files = append(slices.Clone(h.files[:n-mergeLevels]), w.levelFile(h, 1, all))
		w.publish(h)
		for _, f := range old {
			w.remove(h.dir + f.name)
		}
	}
}

func (w *World) levelFile(h *history, n int, rows []entryRow) level {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b entryRow) int { return strings.Compare(a.requested, b.requested) })
	cols := []basefiletest.Column{{Name: "instantTime", Kind: basefile.String}, {Name: "completionTime", Kind: basefile.String}, {Name: "action", Kind: basefile.String},
		{Name: "metadata", Kind: basefile.Bytes}, {Name: "plan", Kind: basefile.Bytes}, {Name: "version", Kind: basefile.Int32}}
	for _, r := range rows {
		for i, v := range [][]byte{[]byte(r.requested), []byte(r.completed), []byte(r.action), r.metadata, r.plan, binary.LittleEndian.AppendUint32(nil, 1)} {
			cols[i].Values = append(cols[i].Values, v)
		}
	}
	b := basefiletest.Write(w.tb, basefiletest.Config{Codec: "none"}, cols...)
	f := level{name: fmt.Sprintf("%s_%s_%d.parquet", rows[0].requested, rows[len(rows)-1].requested, n), size: len(b), level: n, entries: rows}
	w.put(h.dir+f.name, b)
	return f
}

func (w *World) publish(h *history) {
	h.version++
	var files []string
	for _, f := range h.files {
		files = append(files, fmt.Sprintf(`{"fileName":%q,"fileLen":%d}`, f.name, f.size))
	}
	w.put(fmt.Sprintf("%smanifest_%d", h.dir, h.version), fmt.Appendf(nil, `{"files":[%s]}`, strings.Join(files, ",")))
	if h.version > 1 {
		w.remove(h.dir + "_version_")
	}
	w.put(h.dir+"_version_", fmt.Appendf(nil, "%d", h.version))
}

// Archived says whether only the archive has the instant.
func (t *Txn) Archived() bool {
	if !t.w.history.rows[t.Requested] {
		return false
	}
	_, err := t.w.Store.Stat(t.w.tb.Context(), t.completedFile())
	return err != nil
}

// InArchive says whether the archive has the instant, whether or not the active timeline still does.
func (t *Txn) InArchive() bool { return t.w.history.rows[t.Requested] }
