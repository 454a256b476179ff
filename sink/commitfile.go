package sink

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
)

// commitSchema is the Avro schema of an MDT commit as Hudi 1.2.0 writes it.
//
//go:embed commit_schema.json
var commitSchema string

// commitFile returns the bytes of the completed deltacommit (protocol 0.4). Write stats are an empty map and never null; the
// extra metadata has keys of ours only and never "schema", which readers of other partitions would take for theirs. The
// sync marker is derived from the id, so equal arguments give equal bytes.
func commitFile(id string, epoch int64, files []mdt.DataFile, covered []mdt.CoveredInstant) ([]byte, error) {
	var paths, sources []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	named := map[string]bool{}
	for _, c := range covered {
		if !named[c.Requested] {
			named[c.Requested] = true
			sources = append(sources, c.Requested)
		}
	}
	sum := sha256.Sum256([]byte("tidemark deltacommit " + id))
	b, err := avrox.WriteContainer(commitSchema, map[string]any{
		"partitionToWriteStats": map[string]any{},
		"compacted":             false,
		"extraMetadata": map[string]any{
			"tidemark.files":   strings.Join(paths, ","),
			"tidemark.sources": strings.Join(sources, ","),
			"tidemark.epoch":   strconv.FormatInt(epoch, 10),
		},
		"version":       1,
		"operationType": "UPSERT_PREPPED",
	}, [16]byte(sum[:16]))
	if err != nil {
		return nil, fmt.Errorf("encode commit file %s: %w", id, err)
	}
	return b, nil
}
