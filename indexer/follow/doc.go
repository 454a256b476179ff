// Package follow keeps the indexes of many tables fresh in one process: when to look at which table, whose turn it is, what to do after a
// failure, and what is known of each table meanwhile.
//
// It owns a loop for each table, its hints and turns, pauses, commits that are set aside, the end. It refuses to know how anything is covered:
// an indexer.Upkeep says what is due and does it. It may import indexer and what is below. Its one invariant: a table is called fresh only by
// a look that began about one interval ago at most.
package follow
