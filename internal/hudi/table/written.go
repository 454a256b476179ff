package table

import (
	"cmp"
	"strings"

	"tidemark/timeline"
)

// Written says when a row was written and where it lies. Of several live rows of one record key the one whose Written is greatest is
// the key's row, whether it can be indexed or not (design, decision 17): diffing, verify, search and bootstrap all choose by
// it.
type Written struct {
	// Completed and Requested are of the commit that last wrote the row, by its _hoodie_commit_time. Completed is empty for a commit that is
	// no longer on the active timeline, or that is not in the snapshot: it counts as earlier than all that are.
	Completed, Requested string
	// Group and Position tell rows of one commit apart, so that the choice never depends on the order of reading. A row in a log has
	// position -1.
	Group    Group
	Position int64
}

// Compare orders by completion, then by requested time, then by place. Rows that are equal in all of them are further copies in one base file
// whose key a log names: the first of the file counts.
func (w Written) Compare(o Written) int {
	return cmp.Or(strings.Compare(w.Completed, o.Completed), strings.Compare(w.Requested, o.Requested),
		strings.Compare(w.Group.Partition, o.Group.Partition), strings.Compare(w.Group.FileID, o.Group.FileID), cmp.Compare(w.Position, o.Position))
}

// Written returns when a row of a slice was written. Tables without meta columns do not keep the time: their rows count as written with the slice's
// base instant.
func (t *Table) Written(s Slice, r Row) Written {
	return WrittenAt(t.Completion, s.Group, s.Instant, r.CommitTime, r.Position)
}

// WrittenAt is Written for a row given by its parts. completion is Table.Completion or what stands for it.
func WrittenAt(completion func(requested string) string, g Group, baseInstant, commitTime string, position int64) Written {
	requested := cmp.Or(commitTime, baseInstant)
	return Written{Completed: completion(requested), Requested: requested, Group: g, Position: position}
}

// CompletedIn limits completion to the instants of a snapshot: a row can be there whose commit is not, if that commit is seen late. in is
// asked about completed data writes; nil takes all.
func CompletedIn(completion func(requested string) string, in func(timeline.Instant) bool) func(requested string) string {
	return func(requested string) string {
		at := completion(requested)
		i := timeline.Instant{Requested: requested, Completed: at, Action: timeline.Commit, State: timeline.Completed}
		if at == "" || in != nil && !in(i) {
			return ""
		}
		return at
	}
}

// Completion returns the completion time of a commit of the active timeline by its requested time, else the empty text.
func (t *Table) Completion(requested string) string {
	completed, _ := t.Timeline.CompletionOf(requested)
	return completed
}
