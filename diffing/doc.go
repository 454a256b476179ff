// Package diffing tells what a data commit did to each row's vector: it compares the merged slices of every
// touched file group before and after the commit, byte by byte, and gives each record key one class.
//
// It owns the row classes' rules, the proof of equality, and moves between file groups. It refuses to know
// clusters, codes, or how the index is stored. It may import delta (for the types of a change), table and
// timeline. Its one invariant: a row is called unchanged or merely moved only if both its old and its new
// stored bytes were read and are equal.
package diffing
