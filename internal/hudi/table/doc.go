// Package table reads a Hudi data table: which file slices a set of completed instants shows, and their merged rows.
//
// It owns visibility (which files count), slices (which files belong together) and merge rules (which version of a row wins).
// It refuses to own: file formats (basefile, logfile, hfile, avrox), instants and their metadata (timeline), the metadata table
// (mdt), what a change is (diffing), and every write.
//
// It may import timeline, internal/hudi/{basefile, logfile, hfile, avrox} and internal/storage.
//
// Invariant: a slice is complete or an error. A file that the metadata says belongs to it and that is no longer there is
// ErrGone; a file or block that is there and cannot be read is an error too. Rows are never silently missing.
//
// The rules are in docs/format/slices.md, with a worked example.
package table
