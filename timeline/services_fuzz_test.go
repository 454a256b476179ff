package timeline

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

// FuzzServices feeds any bytes to the readers of what is no commit: clean, rollback, restore, savepoint, indexing, and the plans of services.
// The archive holds the same Avro containers. It goes below the reading of files, which waits for a file that is still being written.
func FuzzServices(f *testing.F) {
	for name, ending := range map[string]string{
		"mor_compaction_clean": ".clean", "rollback_restore": ".[rs]*", "pending": ".compaction.requested", "cow_pending_clustering": ".*clustering.requested",
		"log_compaction": ".logcompaction.requested",
	} {
		paths, err := filepath.Glob(filepath.Join(testkit.Table(f, name), ".hoodie", "timeline", "*"+ending))
		if err != nil || len(paths) == 0 {
			f.Fatal(name, err)
		}
		for _, path := range paths[:min(3, len(paths))] {
			b, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	readers := []struct {
		fields  []string
		convert func(avrox.Record)
	}{
		{cleanFields, func(r avrox.Record) { cleanOf(r) }}, {rollbackFields, func(r avrox.Record) { rollbackOf(r) }},
		{restoreFields, func(r avrox.Record) { restoreOf(r) }}, {savepointFields, func(r avrox.Record) { savepointOf(r) }},
		{compactionFields, func(r avrox.Record) { compactionPlanOf(r) }}, {clusteringFields, func(r avrox.Record) { clusteringPlanOf(r) }},
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, r := range readers {
			rec, err := one(b, r.fields...)
			if err == nil {
				r.convert(rec)
			} else if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
				t.Errorf("error of no kind: %v", err)
			}
		}
	})
}
