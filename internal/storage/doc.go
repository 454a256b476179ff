// Package storage is the bottom of the import graph: how every other room reads and writes files, and the few kinds of
// error that callers act on.
//
// It owns the Store and Source interfaces, the error kinds, the located Error, path rules, and Guard, which refuses
// writes outside the places that are ours.
//
// It refuses to know what a file means, to retry, and to log.
//
// It may import the standard library only. Implementations live below it (file, mem, fault) and are made from a URL
// by package open; package storetest is the suite that each of them passes.
//
// Invariant: a name is claimed only by Create, which never overwrites, and content changes only by Replace, which
// compares first. Nothing is ever overwritten blindly.
package storage
