package hudimodel

import (
	"fmt"
	"path"
	"slices"

	"tidemark/internal/hudi/logfile"
)

func (t *Txn) compactionPlan() []byte {
	var ops []any
	for _, g := range t.plan {
		s := t.w.current(g)
		op := map[string]any{"fileId": g.ID, "partitionPath": g.Partition, "baseInstantTime": s.instant()}
		if s.base != nil {
			op["dataFilePath"] = s.base.name
		}
		var names []any
		for _, l := range s.logs {
			names = append(names, l.name)
		}
		op["deltaFilePaths"] = names
		ops = append(ops, op)
	}
	m := map[string]any{"operations": ops, "version": 2, "preserveHoodieMetadata": t.Pending == "logcompaction"}
	if t.Pending == "logcompaction" {
		m["strategy"] = map[string]any{"compactorClassName": "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper", "version": 1}
	}
	return t.w.container(compactionSchema, m)
}

func (t *Txn) clusteringPlan() []byte {
	var slices []any
	for _, g := range t.plan {
		s := t.w.current(g)
		in := map[string]any{"fileId": g.ID, "partitionPath": g.Partition, "bootstrapFilePath": "", "version": 1, "dataFilePath": ""}
		if s.base != nil {
			in["dataFilePath"] = "/tables/model/" + s.base.path
		}
		var logs []any
		for _, l := range s.logs {
			logs = append(logs, "/tables/model/"+l.path)
		}
		in["deltaFilePaths"] = logs
		slices = append(slices, in)
	}
	return t.w.container(requestedReplaceSchema, map[string]any{"operationType": "CLUSTER", "version": 1, "clusteringPlan": map[string]any{
		"inputGroups": []any{map[string]any{"slices": slices, "numOutputFileGroups": 1, "version": 1}}, "version": 1, "preserveHoodieMetadata": true,
		"strategy": map[string]any{"strategyClassName": "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy", "version": 1}}})
}

// Rollback undoes a pending instant: its files and timeline files go, a rollback instant stays.
func (t *Txn) Rollback() {
	w := t.w
	w.tb.Helper()
	w.log("%s.Rollback()", t.label)
	began := w.tick()
	parts := map[string]any{}
	var requests []any
	for _, g := range t.touched {
		var paths []any
		if w.legacy {
			w.rollBackBlocks(g, t, began)
		}
		g.files = slices.DeleteFunc(g.files, func(f *file) bool {
			if f.txn != t {
				return false
			}
			if f.log && w.legacy {
				return true
			}
			paths = append(paths, "/tables/model/"+f.path)
			w.remove(f.path)
			return true
		})
		g.replaced = slices.DeleteFunc(g.replaced, func(o *Txn) bool { return o == t })
		if old, ok := parts[g.Partition].(map[string]any); ok {
			paths = append(old["successDeleteFiles"].([]any), paths...)
		}
		parts[g.Partition] = map[string]any{"partitionPath": g.Partition, "successDeleteFiles": paths, "failedDeleteFiles": []any{}}
		requests = append(requests, map[string]any{"partitionPath": g.Partition, "fileId": g.ID, "latestBaseInstant": t.Requested,
			"filesToBeDeleted": paths, "logBlocksToBeDeleted": map[string]any{}})
	}
	for _, p := range t.strays { // a rollback finds them by the markers of the attempts
		w.remove(p)
	}
	t.undone = true
	w.remove(t.file("requested"))
	w.remove(t.file("inflight"))
	name := ".hoodie/timeline/" + began
	ref := map[string]any{"commitTime": t.Requested, "action": t.Pending}
	w.put(name+".rollback.requested", w.container(rollbackPlanSchema, map[string]any{"instantToRollback": ref, "RollbackRequests": requests, "version": 1}))
	w.put(name+".rollback.inflight", nil)
	w.put(name+"_"+w.tick()+".rollback", w.container(rollbackSchema, map[string]any{"startRollbackTime": began, "timeTakenInMillis": 1, "totalFilesDeleted": len(t.files),
		"commitsRollback": []any{t.Requested}, "partitionMetadata": parts, "version": 1, "instantsRollback": []any{ref}}))
}

// rollBackBlocks undoes appends to a group as version 6 does: a command block behind them. Every second append broke off before its end.
func (w *World) rollBackBlocks(g *Group, t *Txn, instant string) {
	done := map[string]bool{}
	for _, f := range slices.Backward(g.files) {
		if f.txn != t || !f.log || done[f.path] {
			continue
		}
		done[f.path] = true
		content, _, err := w.Store.ReadFile(w.tb.Context(), f.path)
		if err != nil {
			w.tb.Fatalf("model: %v", err)
		}
		if len(w.txns)%2 == 0 {
			content = content[:f.from+(len(content)-f.from)/2]
		}
		w.put(f.path, logfile.AppendBlock(content, logfile.TypeCommand, []logfile.HeaderEntry{{Key: logfile.InstantTime, Value: instant},
			{Key: logfile.TargetInstantTime, Value: t.Requested}, {Key: logfile.CommandType, Value: "0"}}, nil))
	}
}

func (w *World) remove(p string) {
	if w.Step != nil {
		w.Step("remove", p)
	}
	if err := w.Store.Delete(w.tb.Context(), p); err != nil {
		w.tb.Fatalf("model: %v", err)
	}
}

// Clean deletes every file that no snapshot needs from the completion of retain on.
func (w *World) Clean(retain *Txn) int {
	w.tb.Helper()
	w.log("w.Clean(%s)", retain.label)
	need := map[string]bool{} // by path
	done := w.Completed()
	for i := range done {
		if compareDone(done[i], retain) < 0 {
			continue
		}
		in := func(t *Txn) bool { return t.Completed != "" && compareDone(t, done[i]) <= 0 }
		for _, g := range w.groups {
			s, _ := g.slice(in)
			for _, f := range s.files() {
				need[f.path] = true
			}
		}
	}
	w.keepSaved(need)
	began, removed := w.tick(), map[string]bool{}
	parts, plan, n := map[string]any{}, map[string]any{}, 0
	for _, g := range w.groups {
		for _, f := range g.files {
			if need[f.path] || f.gone || f.txn.Completed == "" || compareDone(f.txn, retain) > 0 {
				continue
			}
			f.gone = true
			if removed[f.path] {
				continue
			}
			n, removed[f.path] = n+1, true
			w.remove(f.path)
			m, ok := parts[g.Partition].(map[string]any)
			if !ok {
				m = map[string]any{"partitionPath": g.Partition, "policy": "KEEP_LATEST_COMMITS", "deletePathPatterns": []any{}, "successDeleteFiles": []any{},
					"failedDeleteFiles": []any{}, "isPartitionDeleted": false}
				parts[g.Partition] = m
			}
			for _, k := range []string{"deletePathPatterns", "successDeleteFiles"} {
				m[k] = append(m[k].([]any), path.Base(f.path))
			}
			list, _ := plan[g.Partition].([]any)
			plan[g.Partition] = append(list, map[string]any{"filePath": "/tables/model/" + f.path, "isBootstrapBaseFile": false})
		}
	}
	name := ".hoodie/timeline/" + began
	last := done[len(done)-1].Requested
	w.put(name+".clean.requested", w.container(cleanerPlanSchema, map[string]any{"policy": "KEEP_LATEST_COMMITS", "version": 2, "lastCompletedCommitTimestamp": last,
		"earliestInstantToRetain":      map[string]any{"timestamp": retain.Requested, "action": retain.Action(), "state": "COMPLETED"},
		"filesToBeDeletedPerPartition": map[string]any{}, "filePathsToBeDeletedPerPartition": plan, "partitionsToBeDeleted": []any{}, "extraMetadata": map[string]any{}}))
	w.put(name+".clean.inflight", nil)
	w.put(name+"_"+w.tick()+".clean", w.container(cleanSchema, map[string]any{"startCleanTime": began, "timeTakenInMillis": 1, "totalFilesDeleted": n,
		"earliestCommitToRetain": retain.Requested, "lastCompletedCommitTimestamp": last, "partitionMetadata": parts, "version": 2,
		"bootstrapPartitionMetadata": map[string]any{}, "extraMetadata": map[string]any{}}))
	return n
}

// Evolve changes the columns beside the vector, from the next instant on. kind is add, widen or drop.
func (w *World) Evolve(kind string) {
	w.log("w.Evolve(%q)", kind)
	switch {
	case kind == "widen":
		for i := range w.extra {
			if w.extra[i].typ == "int" {
				w.extra[i].typ = "long"
			}
		}
	case kind == "drop" && len(w.extra) > 0:
		w.extra = w.extra[1:]
	case kind == "add":
		w.evolved++
		w.extra = append(slices.Clone(w.extra), column{fmt.Sprintf("x%d", w.evolved), []string{"int", "string"}[len(w.extra)%2]})
	}
}
