// Package hudimodel makes up Hudi tables for tests: real files in a memory store, and beside them a naive model that says which
// rows the table shows.
//
// It owns the writing side of table version 8 and 9 as Hudi 1.2.0 does it (properties, timeline files with Avro
// metadata and write stats, Parquet base files, log blocks of every kind), a plain record of what was written, and a slow,
// obvious reading of that record by the merge rules. It also draws random histories. It refuses to read files back or to be part
// of the program: only tests import it. It may import the formats and stores below the timeline, and rapid; never
// timeline or internal/hudi/table, which are judged with it.
//
// Invariant: what World.Rows says follows from the recorded operations alone; no code that reads files has a part in it.
package hudimodel
