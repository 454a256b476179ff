// Package basefile reads Hudi's Parquet base files (and Parquet log blocks, which are whole Parquet files).
//
// It owns the Parquet engine: footer, page headers, offset index, column projection, row positions, positional reads.
// It refuses to own what a row means: keys, merging, slices and schema resolution are internal/hudi/table's. It never
// writes; the small writer in basefiletest is for tests.
//
// It may import internal/hudi/avrox (for the vector type) and internal/storage. It is the only package that imports
// parquet-go, of which it uses the Thrift structures and the delta encodings. Pages are cut, checked and decoded here, so that every
// read is a ranged read of known length, every size is checked against its chunk before memory is taken, and a value is
// the stored bytes.
//
// Invariant: a value handed out equals the stored bytes of that row, and the position handed out is the row's ordinal in
// the file. Whatever contradicts itself (lengths, counts, magic, checksums) is storage.ErrCorrupt, never a short answer
// and never a panic; panics of the engine are caught where it is called and become storage.ErrCorrupt.
//
// The format is described in docs/format/basefile.md.
package basefile
