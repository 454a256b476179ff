// Package copies finds the record keys that live more than once in a table, as its commits are compared one after the other.
//
// It owns the suspicion: which keys a batch put into the table, where a copy of them may live already, and how that is found out for the least
// reading. It refuses to know what is due and what becomes of a copy: diffing says that of each row. It may import diffing, generation and what
// is below. Its one invariant: a batch that Find is content with was compared with the knowledge of every copy of its keys.
package copies
