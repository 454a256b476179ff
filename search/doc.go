// Package search owns the answer to a nearest-neighbour query: what to do at one pinned snapshot and generation, the
// two-pass scan of the probed clusters, liveness by the record index, fetching the rows, exact distances, refilling until
// there are k rows or a proof that there are no more, and the exact scan of the whole table.
//
// It refuses to own how postings were made, what the index covers (its caller hands in that judgement), and how rows of
// a file slice are merged. It may import generation and everything below it; it writes nothing.
//
// Invariant: every row of an answer is a row that the table holds at the pinned snapshot, with the distance of its own
// vector; an answer that may be short or stale says so.
package search
