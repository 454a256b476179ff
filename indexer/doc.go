// Package indexer covers commits of a table: it finds the data commits that the table's indexes do not cover, has them
// compared, and writes what changed together with one marker per commit in one metadata-table commit.
//
// It owns what is due, in which order, how much goes into one batch, and when to stop with a reason. When to look again is
// its caller's: Sync works until nothing is due, an Upkeep does a bounded part each time that it is asked. It refuses to know
// byte formats and how a commit is made. It may import everything below cmd. Its one invariant: an instant is marked only in
// the same commit as everything that was found to have changed in it.
package indexer
