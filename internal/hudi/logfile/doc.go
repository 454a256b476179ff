// Package logfile reads and writes Hudi's inline log files (log format version 1).
//
// It owns the bytes of docs/format/logfile.md: file names and their merge order, the block frame, headers, Avro and
// delete content, row positions, and the rule which blocks of a slice count (rollbacks, log compaction). It refuses to
// know record schemas, merge modes, timelines, and what is inside an HFile or Parquet block: it hands their bytes out.
// It may import internal/storage and the roaring bitmap codec, nothing else of this module; it has no clock,
// no network, no logger, and its output never depends on map order.
//
// Invariant: every byte of a file belongs to exactly one block that is handed out; damaged and trailing regions come
// out as corrupt blocks with a reason, never silently skipped.
package logfile
