package hudimodel

import (
	"path"
	"strings"
)

const metadataTimeline = ".hoodie/metadata/.hoodie/timeline/"

// ArchiveMetadata moves the completed delta commits of the metadata table to its archived timeline, as its archiver does with whatever it
// finds there, and returns how many.
func (w *World) ArchiveMetadata() int {
	w.tb.Helper()
	w.log("w.ArchiveMetadata()")
	var rows []entryRow
	var gone []string
	for _, p := range w.Store.Paths() {
		name, ok := strings.CutPrefix(p, metadataTimeline)
		if !ok || path.Ext(name) != ".deltacommit" || strings.HasPrefix(name, "0000") {
			continue
		}
		requested, completed, ok := strings.Cut(strings.TrimSuffix(name, ".deltacommit"), "_")
		if !ok {
			continue
		}
		rows = append(rows, entryRow{requested, completed, "deltacommit", w.bytes(p), nil})
		gone = append(gone, p)
	}
	if len(rows) == 0 {
		return 0
	}
	w.metadata.dir = metadataTimeline + "history/"
	w.writeLevel(&w.metadata, rows)
	for _, p := range gone {
		w.remove(p)
	}
	return len(rows)
}
