// Package source says what a source of hints is: something that heard of a commit, such as a message queue or an HTTP
// endpoint, and wakes a table's loop.
//
// It owns the form of a hint and the comparison of the names that sources and configurations give a table. It refuses to
// know what a hint leads to: a hint may be lost, doubled, late or wrong, and the timeline alone decides what there is to do. It
// imports nothing of this program but storage errors. Its one invariant: a hint never carries anything that is believed.
package source
