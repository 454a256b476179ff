package delta

import "fmt"

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

// Change is what one data commit did to a record key. Old is nil if the row was not in the index before, New if it is not in it
// afterwards. The builder reads both and does not change them.
type Change struct {
	Class    Class
	Key      string
	Old, New *Version
	Instant  string // requested time of the data instant
	// Also are further old versions of the key that may have a posting: copies of it elsewhere. Where they are in
	// neither the old nor the new row's cluster they get a tombstone: one record ends with one live posting.
	Also []*Version
}

// Then returns what a change followed by a later one of the same key comes to: the first Old and the last New decide. Its class is not
// set: whether there is an effect at all is for Net to say.
func (c Change) Then(later Change) Change {
	c.Class, c.New, c.Instant = 0, later.New, later.Instant
	c.Also = append(c.Also[:len(c.Also):len(c.Also)], later.Also...)
	return c
}
