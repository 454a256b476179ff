package delta

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Class says what happened to one record key in one data commit (design, section 4).
type Class uint8

// The row classes. The zero value is no class.
const (
	Insert         Class = iota + 1 // absent or unindexable before, indexable now
	VectorUpdate                    // indexable before and now, stored bytes differ
	LocatorRefresh                  // same bytes, other partition, file group, base instant or position
	Delete                          // indexable before, absent or unindexable now
	Unchanged                       // same bytes and locator, and it was examined
	Unindexable                     // a row that is there now and cannot be indexed
)

var classNames = [...]string{"", "insert", "vector_update", "locator_refresh", "delete", "unchanged", "unindexable"}

// String returns the class's name in JSON output and metrics.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", c)
}

// Classes lists every class in the order of its constant.
func Classes() []Class {
	return []Class{Insert, VectorUpdate, LocatorRefresh, Delete, Unchanged, Unindexable}
}

// LogPosition is the row position of a row whose key occurs in a log of its slice (design, decision 22).
const LogPosition int64 = -1

// Locator says where a row lies. It is a hint: readers check the key they find there.
type Locator struct {
	Partition   string
	FileID      string
	BaseInstant string // the slice's base instant, or the lowest requested time among its logs
	Position    int64  // row position in the base file; LogPosition for a row in a log
}

// Version is one state of an indexable row.
type Version struct {
	Raw     []byte    // stored bytes of the vector, for comparison; nil if they are not known
	Vector  []float32 // the same, narrowed to float32; nil if not known
	Locator Locator
	// Cluster is the cluster of the row's posting. It is looked at only if Routed is set; without it the cluster
	// follows from Vector. An old row whose bytes are no longer readable must have it.
	Cluster int
	Routed  bool
}

// Change is what one data commit, or after Reduce one batch, did to a record key. Old is nil if the row was not
// in the index before, New if it is not in it afterwards. The builder reads both and does not change them.
type Change struct {
	Class    Class
	Key      string
	Old, New *Version
	Instant  string // requested time of the data instant; the last one's after Reduce
	// Also are further old versions of the key that may have a posting: copies of it elsewhere. Where they are in
	// neither the old nor the new row's cluster they get a tombstone: one record ends with one live posting.
	Also []*Version
}

// Reduce returns the net effect of changes that are given in the order of their data instants: at most one change
// for each key, ascending by key. The first Old and the last New decide, so an insert that is deleted again
// leaves nothing. Changes of class Unchanged and Unindexable have no effect and are left out. The input is not
// changed; versions are shared with it.
func Reduce(changes []Change) []Change {
	at := make(map[string]int, len(changes))
	var out []Change
	for _, c := range changes {
		if c.Class == Unchanged || c.Class == Unindexable {
			continue
		}
		i, seen := at[c.Key]
		if !seen {
			at[c.Key] = len(out)
			out = append(out, c)
			continue
		}
		out[i].Also = append(slices.Clip(out[i].Also), c.Also...)
		out[i].New, out[i].Instant = c.New, c.Instant
	}
	out = slices.DeleteFunc(out, func(c Change) bool { return c.Old == nil && c.New == nil })
	kept := out[:0]
	for _, c := range out {
		if c.Class = classify(c.Old, c.New); c.Class != Unchanged {
			kept = append(kept, c)
		}
	}
	clear(out[len(kept):])
	slices.SortFunc(kept, func(a, b Change) int { return strings.Compare(a.Key, b.Key) })
	return kept
}

// classify compares two states of a row. Bytes that are not known are never equal (design, decision 15).
func classify(before, after *Version) Class {
	switch {
	case before == nil:
		return Insert
	case after == nil:
		return Delete
	case before.Raw == nil || after.Raw == nil || !bytes.Equal(before.Raw, after.Raw):
		return VectorUpdate
	case before.Locator != after.Locator:
		return LocatorRefresh
	}
	return Unchanged
}
