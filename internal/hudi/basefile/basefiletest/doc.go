// Package basefiletest writes small Parquet files for tests.
//
// It owns the shape of made-up base files: columns, nulls, encodings, page and row-group cuts. It refuses to be part of the
// program: only tests import it. It may import basefile and parquet-go.
//
// Invariant: what Write wrote, basefile reads back, byte for byte.
package basefiletest
