// Package hfile reads and writes the HFile version 3 container as Hudi uses it: the base files of the metadata
// table and the content of its log blocks.
//
// It owns the bytes of docs/format/hfile.md: blocks, checksums, compression, index, file info, trailer. It refuses
// to know what a value means, which file holds a key, or how files are merged. It may import internal/storage and a
// gzip codec, nothing else of this module; it has no clock, no network, no logger, and its output never depends on map order.
//
// Invariant: a reader returns either the cells that a writer put in, or an error of kind storage.ErrCorrupt or
// storage.ErrUnsupported that names the place. Nothing is allocated on the word of a length field that was not
// checked against the bytes that are there.
package hfile
