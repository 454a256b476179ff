// Package mdt reads a table's metadata table (MDT) and owns the type of the state object.
//
// It owns: which files and log blocks of an MDT partition count, the records of the partitions `files` and `record_index`
// (docs/format/mdt.md), whether an instant is in the MDT's archived timeline, the state object's type and reader
// (docs/format/state.md), and the view over the files of an index that the state names. It refuses to know what an index
// record means, to write anything, and to list directories for files of ours: the state is the only truth about them.
// It may import timeline, internal/hudi/{avrox, basefile, hfile, logfile, table} and internal/storage.
//
// Invariant: an answer is of one snapshot. A file or block that belongs to it and cannot be read is an error,
// never a shorter answer.
package mdt
