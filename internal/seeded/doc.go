// Package seeded breaks the protocol on purpose: a list of mistakes that one could make, each as a change of a line or two of the
// program, and the test that must find it.
//
// It owns the list. It refuses switches in the program: a mistake is built in by the compiler's overlay, which puts another file in
// the place of one, and nothing of it is ever on disk beside the sources. It imports nothing of this module.
//
// Invariant: every mistake of the list compiles, and is found by the model or by the simulation.
package seeded
