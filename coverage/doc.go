// Package coverage says what the indexes of a table cover, and proves it.
//
// It owns: status with its states, lag, gaps and next step; freshness decided on sets; the list of markers; waiting for an
// instant; and verify, which compares an index with its table by content.
//
// It refuses to change anything. The one who writes is the indexer; how commits are made is the sink's.
//
// It may import generation, delta, markers, internal/hudi/mdt, internal/hudi/table, timeline, and what lies below them.
//
// Invariant: an index is called fresh only if exactly the completed data writes of the newest snapshot are incorporated,
// none of them has been undone, and what is no longer on the active timeline is known to be incorporated. What cannot be
// known is null and not fresh.
package coverage
