package hudimodel

import (
	"fmt"
	"slices"
	"strings"
)

// Effective says whether a snapshot of the table as its files are now shows the instant: its completed file is there, or the archive
// has it.
func (w *World) Effective(t *Txn) bool {
	if t.Completed == "" {
		return false
	}
	if w.history.rows[t.Requested] {
		return true
	}
	_, err := w.Store.Stat(w.tb.Context(), t.completedFile())
	return err == nil
}

func (t *Txn) completedFile() string {
	return fmt.Sprintf(".hoodie/timeline/%s_%s.%s", t.Requested, t.Completed, t.Action())
}

// Undone says whether the instant was rolled back or restored away, or is about to be.
func (t *Txn) Undone() bool { return t.undone }

// Savepoint saves an instant: neither the cleaner nor the archiver takes what its snapshot needs.
func (w *World) Savepoint(t *Txn) {
	w.log("w.Savepoint(%s)", t.label)
	w.saved = append(w.saved, t)
	files := map[string]any{}
	in := upTo(t)
	for _, g := range w.groups {
		s, _ := g.slice(in)
		var names []any
		for _, f := range s.files() {
			names = append(names, f.name)
		}
		if old, ok := files[g.Partition].(map[string]any); ok {
			names = append(old["savepointDataFile"].([]any), names...)
		}
		files[g.Partition] = map[string]any{"partitionPath": g.Partition, "savepointDataFile": names}
	}
	w.put(".hoodie/timeline/"+t.Requested+".savepoint.inflight", nil)
	w.put(".hoodie/timeline/"+t.Requested+"_"+w.tick()+".savepoint", w.container(savepointSchema, map[string]any{"savepointedBy": "model", "savepointedAt": 1,
		"comments": "", "partitionMetadata": files, "version": 1}))
}

// Saved are the instants with a savepoint.
func (w *World) Saved() []*Txn { return slices.Clone(w.saved) }

func upTo(t *Txn) In {
	return func(o *Txn) bool { return o.Completed != "" && compareDone(o, t) <= 0 }
}

// keepSaved adds what savepoints need.
func (w *World) keepSaved(need map[string]bool) {
	for _, t := range w.saved {
		for _, g := range w.groups {
			s, _ := g.slice(upTo(t))
			for _, f := range s.files() {
				need[f.path] = true
			}
		}
	}
}

// CanUndo says whether the table can be read without some instants: none of them is archived, and no file that shows then was
// cleaned away.
func (w *World) CanUndo(list ...*Txn) bool {
	in := func(t *Txn) bool { return w.Effective(t) && !slices.Contains(list, t) }
	for _, t := range list {
		if w.history.rows[t.Requested] || slices.Contains(w.saved, t) {
			return false
		}
	}
	return !slices.ContainsFunc(w.groups, func(g *Group) bool { return g.Gone(in) })
}

// unpublish takes the completed file away, which is the first thing that an undoing does, then the files, then the rest of the
// instant. It returns what the rollback's metadata says of it.
func (t *Txn) unpublish() map[string]any {
	w := t.w
	t.undone = true
	if t.Completed != "" {
		w.remove(t.completedFile())
	}
	parts := map[string]any{}
	for _, g := range t.touched {
		var paths []any
		for _, f := range slices.Clone(g.files) {
			if f.txn == t && !f.gone {
				paths = append(paths, "/tables/model/"+f.path)
				w.remove(f.path)
			}
		}
		g.files = slices.DeleteFunc(g.files, func(f *file) bool { return f.txn == t })
		g.replaced = slices.DeleteFunc(g.replaced, func(o *Txn) bool { return o == t })
		if old, ok := parts[g.Partition].(map[string]any); ok {
			paths = append(old["successDeleteFiles"].([]any), paths...)
		}
		parts[g.Partition] = map[string]any{"partitionPath": g.Partition, "successDeleteFiles": paths, "failedDeleteFiles": []any{}}
	}
	for _, p := range t.strays {
		w.remove(p)
	}
	w.remove(t.file("inflight"))
	w.remove(t.file("requested"))
	return parts
}

func (t *Txn) ref() map[string]any {
	return map[string]any{"commitTime": t.Requested, "action": t.Action()}
}

func (t *Txn) rollbackOf(began string, parts map[string]any) map[string]any {
	return map[string]any{"startRollbackTime": began, "timeTakenInMillis": 1, "totalFilesDeleted": len(t.files),
		"commitsRollback": []any{t.Requested}, "partitionMetadata": parts, "version": 1, "instantsRollback": []any{t.ref()}}
}

// Undo rolls back an instant, completed or not.
func (t *Txn) Undo() {
	w := t.w
	w.tb.Helper()
	w.log("%s.Undo()", t.label)
	began := w.tick()
	name := ".hoodie/timeline/" + began
	w.put(name+".rollback.requested", w.container(rollbackPlanSchema, map[string]any{"instantToRollback": t.ref(), "RollbackRequests": []any{}, "version": 1}))
	w.put(name+".rollback.inflight", nil)
	parts := t.unpublish()
	done := w.tick()
	w.history.undoings = append(w.history.undoings, doing{began, done, "rollback"})
	w.put(name+"_"+done+".rollback", w.container(rollbackSchema, t.rollbackOf(began, parts)))
	t.Completed = ""
}

// Restore takes the table back to a saved instant: what was requested after it goes, the newest first.
func (w *World) Restore(to *Txn) {
	w.tb.Helper()
	w.log("w.Restore(%s)", to.label)
	began := w.tick()
	var targets []*Txn
	var refs []any
	for _, t := range w.txns {
		if !t.undone && t.Requested > to.Requested {
			targets = append(targets, t)
		}
	}
	slices.SortFunc(targets, func(a, b *Txn) int { return strings.Compare(b.Requested, a.Requested) })
	for _, t := range targets {
		refs = append(refs, t.ref())
	}
	name := ".hoodie/timeline/" + began
	w.put(name+".restore.requested", w.container(restorePlanSchema, map[string]any{"instantsToRollback": refs, "version": 2,
		"savepointToRestoreTimestamp": to.Requested}))
	w.put(name+".restore.inflight", nil)
	each := map[string]any{}
	var times []any
	for _, t := range targets {
		each[t.Requested] = []any{t.rollbackOf(began, t.unpublish())}
		times = append(times, t.Requested)
	}
	w.put(name+"_"+w.tick()+".restore", w.container(restoreSchema, map[string]any{"startRestoreTime": began, "timeTakenInMillis": 1,
		"instantsToRollback": times, "hoodieRestoreMetadata": each, "version": 1, "restoreInstantInfo": refs}))
	for _, t := range targets {
		t.Completed = ""
	}
}

// Current returns the rows that a group shows now.
func (w *World) Current(g *Group) []Live { return w.Rows(g, w.Effective) }

// Visible says whether a group shows anything now.
func (w *World) Visible(g *Group) bool {
	_, ok := g.slice(w.Effective)
	return ok
}

// HasLogs says whether the group's slice has logs now.
func (w *World) HasLogs(g *Group) bool {
	s, _ := g.slice(w.Effective)
	return len(s.logs) > 0
}

// Tick takes a time for a completion that comes later.
func (w *World) Tick() string {
	w.log("at%d := w.Tick()", len(w.script))
	return w.tick()
}

// CompleteAt completes the instant at a time taken before.
func (t *Txn) CompleteAt(at string) {
	t.w.log("%s.CompleteAt(%q)", t.label, at)
	t.complete(at)
}
