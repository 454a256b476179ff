// Package timeline reads a Hudi table's timeline and its table properties.
//
// It owns: hoodie.properties, the instants of both timeline layouts with their states and times, the metadata of every
// action, the archived timeline, arithmetic on instant texts, and the table's schema at an instant.
//
// It refuses: file slices, rows and vectors (table does that), writing, and clocks. It decides nothing about coverage.
//
// It may import internal/hudi/avrox, internal/hudi/basefile (level files of the archive are Parquet) and internal/storage.
//
// Invariant: an instant is what the timeline's files say and nothing is guessed. A completed instant whose file is empty
// or does not decode is an error that names the file, never a commit that changed nothing.
package timeline
