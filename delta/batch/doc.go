// Package batch turns the row changes of one commit into its records, however many they are.
//
// It owns the net effect of a batch by record key, the order of the records, and the bound on memory: row changes wait in a
// buffer, are worked out (delta.Net) and merged by key, then sorted as they are written; what does not fit is spilled. It refuses to
// know bytes of records, which are delta's, or where changes come from. Its one invariant: the records do not depend on the
// bound, on the number of workers, or on how the changes of one instant are ordered.
package batch
