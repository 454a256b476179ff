// Package delta makes and reads the records of one vector index: keys, posting blocks, posting deltas,
// tombstones and cluster counters (docs/format/keys.md, records.md, posting-block.md, posting-delta.md).
//
// It owns the bytes of a key and of a record value, the placement of a key (segment, physical file group),
// the net effect of a batch of row changes, and the records that follow from it.
// It refuses to own where bytes are stored, how a commit is made, which rows changed, how clusters are
// trained, and any clock: every time in a record is handed in.
// It may import internal/hudi/avrox (decoding by the writer's schema), internal/vector and internal/storage
// (error kinds). The rooms diffing and generation build on its types.
//
// Invariant: the same changes give the same bytes, in ascending key order, on every machine and in every
// run; and no batch ever holds a posting delta and a tombstone under one key.
package delta
