// Package peak measures what the machine's arithmetic can do at most, beside the loops whose speed benchmarks tell as a
// share of it.
//
// It refuses to own the loops that are measured. It imports the standard library only and is never part of the binary.
// Invariant: a share is made of times taken in turns in one process, the least of several short runs each, so that other
// work on the machine does not count.
package peak
