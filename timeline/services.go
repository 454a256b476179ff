package timeline

import (
	"context"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
)

// InstantRef names an instant in another instant's metadata.
type InstantRef struct {
	Requested string
	Action    Action
}

// CleanMetadata is the content of a completed clean.
type CleanMetadata struct {
	// EarliestRetained is the requested time from which on the cleaner keeps what each snapshot needs; empty if unknown.
	EarliestRetained string
	// LastCompleted is the newest commit when the clean was planned.
	LastCompleted string
	// Deleted and Failed are file names by partition.
	Deleted, Failed map[string][]string
	// DroppedPartitions were deleted whole.
	DroppedPartitions []string
}

// RollbackMetadata is the content of a completed rollback, or of one rollback inside a restore.
type RollbackMetadata struct {
	// Instants are the requested times of the commits rolled back.
	Instants []string
	// Refs are the same with their actions, where the writer noted them.
	Refs []InstantRef
	// Deleted are file names by partition.
	Deleted map[string][]string
}

// RestoreMetadata is the content of a completed restore.
type RestoreMetadata struct {
	// Instants are the instants undone.
	Instants []InstantRef
	// Rollbacks are what was done for each of them, by requested time.
	Rollbacks map[string][]RollbackMetadata
}

// SavepointMetadata is the content of a completed savepoint.
type SavepointMetadata struct {
	// Files are the saved files' names by partition.
	Files map[string][]string
	// Comments is what the operator noted.
	Comments string
}

// CompactionPlan is the plan of a compaction or log compaction.
type CompactionPlan struct {
	Operations []CompactionOperation
}

// CompactionOperation is one file slice to be compacted.
type CompactionOperation struct {
	Partition, FileID string
	// BaseInstant is the slice's base instant; of a slice without a base file that of its first log.
	BaseInstant string
	// BaseFile is a file name, empty for a slice of logs only.
	BaseFile string
	// LogFiles are file names, oldest first.
	LogFiles []string
}

// ClusteringPlan is the plan of a clustering, also of layout 1's replacecommit.
type ClusteringPlan struct {
	// Operation is CLUSTER, or what else a replacecommit was requested for, empty if it does not say.
	Operation string
	// Groups are the input groups; their slices are replaced together.
	Groups [][]ClusteringSlice
}

// ClusteringSlice is one input of a clustering.
type ClusteringSlice struct {
	Partition, FileID string
	// BaseFile and LogFiles are file names.
	BaseFile string
	LogFiles []string
}

// IndexMetadata is the content of a completed indexing: which metadata partitions were built and up to which instant.
type IndexMetadata struct {
	Operation  string
	Partitions map[string]string
}

// What every writer's schema has: without it a damaged name would read as an action that did nothing.
var (
	cleanFields      = []string{"partitionMetadata"}
	rollbackFields   = []string{"commitsRollback"}
	restoreFields    = []string{"restoreInstantInfo"}
	savepointFields  = []string{"partitionMetadata"}
	indexFields      = []string{"indexPartitionInfos"}
	compactionFields = []string{"operations"}
	clusteringFields = []string{"clusteringPlan"}
)

// ReadClean reads a completed clean. Errors as of ReadCommit, here and below.
func ReadClean(ctx context.Context, st storage.Store, dir string, p *Properties, inst Instant) (*CleanMetadata, error) {
	if inst.Action != Clean || inst.State != Completed {
		return nil, wrongAction(inst, "a completed clean")
	}
	return readOne(ctx, st, dir, p, inst.File, cleanFields, cleanOf)
}

func cleanOf(r avrox.Record) *CleanMetadata {
	m := &CleanMetadata{EarliestRetained: str(r, "earliestCommitToRetain"), LastCompleted: str(r, "lastCompletedCommitTimestamp"),
		Deleted: map[string][]string{}, Failed: map[string][]string{}}
	each(r, "partitionMetadata", func(partition string, part avrox.Record) {
		m.Deleted[partition] = names(part["successDeleteFiles"])
		if failed := names(part["failedDeleteFiles"]); len(failed) > 0 {
			m.Failed[partition] = failed
		}
		if dropped, _ := part.Bool("isPartitionDeleted"); dropped {
			m.DroppedPartitions = append(m.DroppedPartitions, partition)
		}
	})
	return m
}

// ReadRollback reads a completed rollback.
func ReadRollback(ctx context.Context, st storage.Store, dir string, p *Properties, inst Instant) (*RollbackMetadata, error) {
	if inst.Action != Rollback || inst.State != Completed {
		return nil, wrongAction(inst, "a completed rollback")
	}
	return readOne(ctx, st, dir, p, inst.File, rollbackFields, func(r avrox.Record) *RollbackMetadata { m := rollbackOf(r); return &m })
}

func rollbackOf(r avrox.Record) RollbackMetadata {
	m := RollbackMetadata{Instants: texts(r["commitsRollback"]), Refs: refs(r["instantsRollback"]), Deleted: map[string][]string{}}
	each(r, "partitionMetadata", func(partition string, part avrox.Record) {
		m.Deleted[partition] = names(part["successDeleteFiles"])
	})
	return m
}

// ReadRestore reads a completed restore.
func ReadRestore(ctx context.Context, st storage.Store, dir string, p *Properties, inst Instant) (*RestoreMetadata, error) {
	if inst.Action != Restore || inst.State != Completed {
		return nil, wrongAction(inst, "a completed restore")
	}
	return readOne(ctx, st, dir, p, inst.File, restoreFields, restoreOf)
}

func restoreOf(r avrox.Record) *RestoreMetadata {
	m := &RestoreMetadata{Instants: refs(r["restoreInstantInfo"]), Rollbacks: map[string][]RollbackMetadata{}}
	undone, _ := r.Map("hoodieRestoreMetadata")
	for instant, list := range undone {
		for _, one := range records(list) {
			m.Rollbacks[instant] = append(m.Rollbacks[instant], rollbackOf(one))
		}
	}
	return m
}

// ReadSavepoint reads a completed savepoint.
func ReadSavepoint(ctx context.Context, st storage.Store, dir string, p *Properties, inst Instant) (*SavepointMetadata, error) {
	if inst.Action != Savepoint || inst.State != Completed {
		return nil, wrongAction(inst, "a completed savepoint")
	}
	return readOne(ctx, st, dir, p, inst.File, savepointFields, savepointOf)
}

func savepointOf(r avrox.Record) *SavepointMetadata {
	m := &SavepointMetadata{Files: map[string][]string{}, Comments: str(r, "comments")}
	each(r, "partitionMetadata", func(partition string, part avrox.Record) {
		m.Files[partition] = names(part["savepointDataFile"])
	})
	return m
}

// ReadIndexing reads a completed indexing.
func ReadIndexing(ctx context.Context, st storage.Store, dir string, p *Properties, inst Instant) (*IndexMetadata, error) {
	if inst.Action != Indexing || inst.State != Completed {
		return nil, wrongAction(inst, "a completed indexing")
	}
	return readOne(ctx, st, dir, p, inst.File, indexFields, func(r avrox.Record) *IndexMetadata {
		m := &IndexMetadata{Operation: upper(str(r, "operationType")), Partitions: map[string]string{}}
		for _, info := range records(r["indexPartitionInfos"]) {
			m.Partitions[str(info, "metadataPartitionPath")] = str(info, "indexUptoInstant")
		}
		return m
	})
}

// ReadCompactionPlan reads the plan of a compaction or log compaction, pending or completed.
func ReadCompactionPlan(ctx context.Context, st storage.Store, dir string, p *Properties, inst Instant) (*CompactionPlan, error) {
	if inst.Pending != Compaction && inst.Pending != LogCompaction || inst.Plan == "" {
		return nil, wrongAction(inst, "a compaction with its plan")
	}
	return readOne(ctx, st, dir, p, inst.Plan, compactionFields, compactionPlanOf)
}

func compactionPlanOf(r avrox.Record) *CompactionPlan {
	m := &CompactionPlan{}
	for _, op := range records(r["operations"]) {
		m.Operations = append(m.Operations, CompactionOperation{
			Partition: str(op, "partitionPath"), FileID: str(op, "fileId"), BaseInstant: str(op, "baseInstantTime"),
			BaseFile: base(str(op, "dataFilePath")), LogFiles: names(op["deltaFilePaths"]),
		})
	}
	return m
}

// ReadClusteringPlan reads the requested file of a clustering or another replacecommit, pending or completed. Without a
// clustering plan in it, Groups is empty.
func ReadClusteringPlan(ctx context.Context, st storage.Store, dir string, p *Properties, inst Instant) (*ClusteringPlan, error) {
	if inst.Pending.Completes() != ReplaceCommit || inst.Plan == "" {
		return nil, wrongAction(inst, "a clustering with its plan")
	}
	return readOne(ctx, st, dir, p, inst.Plan, clusteringFields, clusteringPlanOf)
}

func clusteringPlanOf(r avrox.Record) *ClusteringPlan {
	m := &ClusteringPlan{Operation: upper(str(r, "operationType"))}
	plan, _ := r.Rec("clusteringPlan")
	for _, group := range records(plan["inputGroups"]) {
		var slices []ClusteringSlice
		for _, s := range records(group["slices"]) {
			slices = append(slices, ClusteringSlice{Partition: str(s, "partitionPath"), FileID: str(s, "fileId"),
				BaseFile: base(str(s, "dataFilePath")), LogFiles: names(s["deltaFilePaths"])})
		}
		m.Groups = append(m.Groups, slices)
	}
	return m
}
