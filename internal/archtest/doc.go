// Package archtest holds the repository to what docs/ARCHITECTURE.md says: who may import whom, which package
// owns which module from outside, which packages are pure, that every exported name is explained, and that
// documents point at files that exist.
//
// It owns the checks and refuses to own the rules: those are read from the document, so that a change of
// structure is a change of the document in the same commit. It imports the standard library only and is never
// part of the binary. Invariant: every finding names the file or package and what to do about it.
package archtest
