// Package avrox reads and writes Avro the way Hudi uses it.
//
// It owns: Avro schemas with their named types resolved, VECTOR attributes, records decoded by field name, a projection
// for hot paths, and object container files. It is the only package that imports goavro.
//
// It refuses: anything about what a record means (timeline and delta do that), and schema resolution between a writer's
// and a reader's schema. A record is always decoded by the schema it was written with, and its fields are taken by name.
//
// It may import internal/storage for the error kinds and internal/vector/kernel for the element types.
//
// Invariant: input never panics, and no length is believed before it is compared with the bytes that are left.
package avrox
