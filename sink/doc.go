// Package sink makes one atomic commit into a table's metadata table (MDT), and is the only writer of the state object.
//
// It owns the lease, ids and completion times, staging, the commit point, recovery after a kill, sweeping of leftovers,
// retiring of files, and the check that both primitives of a store work. docs/format/commit.md and docs/format/state.md
// describe what it writes and what a crash at each step leaves.
//
// It refuses to know what records mean (they are opaque keys and payloads), which instants are due, and anything about
// diffing, delta or markers: what a batch is and how it changes the state are callbacks of its callers.
//
// It may import internal/hudi/mdt, timeline, the format packages and internal/storage.
//
// Invariant: a file becomes visible to our readers only by the compare-and-swap that names it in the state, after its
// deltacommit is on the MDT timeline; and whatever call a process is killed at, the next owner either finishes that
// commit with the same bytes or takes all of it back. Nothing of the table's own is ever written: a storage.Guard
// below every call refuses it.
package sink
