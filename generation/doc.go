// Package generation builds an index, loads a built one for other rooms, lists indexes and drops them.
//
// It owns the options of an index (the closed list of RFC-109 section 8 and the tidemark.* ones), the plan with its
// memory estimate, the bootstrap (read, train, assign, encode, pack, write as BUILDING, read back, activate), and the
// Generation that routes and encodes vectors for everyone else: bootstrap and upkeep use the same two functions.
//
// It refuses to own how a commit is made (it declares the Committer it needs), byte layouts of records (package delta),
// the training itself (package ivf), and following commits (indexer).
//
// It may import delta, markers, internal/hudi/mdt, internal/hudi/table, timeline and internal/vector; not sink.
//
// Invariant: nothing but an ACTIVE generation whose every record was read back and compared can be loaded, and two
// bootstraps of the same snapshot with the same options write the same bytes up to generation number and times.
package generation
