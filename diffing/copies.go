package diffing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"tidemark/delta"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// A record key can live more than once in a table: in one file group, in several, in several partitions. Of all its copies the one
// written last is its row, indexable or not (design decision 17), and an index has one posting for it or none. So a unit that touches one
// copy can move the posting to another one, in a group that it did not touch: the changes of a result tell of the row in the whole
// table. The counts tell of the touched groups alone (design, section 4), as if there were no others.
//
// Keys with copies are set apart: their rows wait until all of them are read, and are then compared by this rule. Such keys are the
// suspects, which the caller knows, and those that the touched groups turn out to hold more than once, for which the comparison
// begins anew.

// Suspects are record keys that may live more than once, by their hash, with groups that may hold them. Two keys that share a hash share
// their suspicion, which costs reads and changes nothing. It is not safe for concurrent use.
type Suspects struct {
	// All says that any key may be one: Request.Fresh is then given every key that the unit touched.
	All bool

	seed   maphash.Seed
	groups map[uint64][]table.Group
}

// NewSuspects returns an empty set.
func NewSuspects() *Suspects {
	return &Suspects{seed: maphash.MakeSeed(), groups: map[uint64][]table.Group{}}
}

// Hash returns the hash of a key, of this set only.
func (s *Suspects) Hash(key []byte) uint64 { return maphash.Bytes(s.seed, key) }

// Add makes the keys of a hash suspects and reports whether the set did not know that a group may hold them.
func (s *Suspects) Add(hash uint64, g table.Group) bool {
	if slices.Contains(s.groups[hash], g) {
		return false
	}
	s.groups[hash] = append(s.groups[hash], g)
	return true
}

func (s *Suspects) none() bool { return s == nil || len(s.groups) == 0 }

func (s *Suspects) has(hash uint64) bool {
	if s == nil {
		return false
	}
	_, ok := s.groups[hash]
	return ok
}

// Fresh takes in keys of which it is not known whether a copy lives in a group that the unit did not touch: those that the unit put into
// touched groups and none of these had before.
type Fresh interface {
	// Add takes a key and the group of its row. What key points to is valid during the call only. A key may come twice.
	Add(key []byte, g table.Group) error
	// Reset says that the comparison begins anew: what was added since it began counts no more.
	Reset()
}

// Copies is where a record key lives.
type Copies struct {
	Key string
	// Rows counts the live rows, indexable or not; 0 and 1: the key is none with copies, or no longer.
	Rows int64
	// Groups hold them, that of the row written last first, the others in order.
	Groups []table.Group
}

// ErrElsewhere says that a group which may hold a copy of a touched key, and which the unit did not touch, can no longer be read as it
// was then. The unit must be taken together with later instants (design decision 12).
var ErrElsewhere = fmt.Errorf("a file group with copies of record keys is gone: %w", storage.ErrStale)

// errCopies says that keys were found more than once; comparison.apart has them.
var errCopies = errors.New("record keys occur more than once")

// fresh hands on a key whose copies elsewhere are not known.
func (c *comparison) fresh(b, n *view) error {
	if c.req.Fresh == nil || n == nil && !c.req.Suspects.all() || b != nil && n != nil && !c.req.Suspects.all() {
		return nil
	}
	v := n
	if n == nil {
		v = b
	}
	at := c.places[v.place]
	return c.req.Fresh.Add(v.key, table.Group{Partition: at.Partition, FileID: at.FileID})
}

func (s *Suspects) all() bool { return s != nil && s.All }

// alone notes a key that only one side has, if a group whose base file stayed could hold it unread.
func (c *comparison) alone(v *view) {
	at := c.places[v.place]
	g := table.Group{Partition: at.Partition, FileID: at.FileID}
	if len(c.stayed) > 1 || len(c.stayed) == 1 && c.stayed[0] != g {
		c.lone[string(v.key)] = g
	}
}

// elsewhere looks for keys that only one side has in the other groups whose base file stayed: there they may have been all the time,
// unread. One that is found is a copy.
func (c *comparison) elsewhere(ctx context.Context, pairs []pairOf) error {
	found := false
	for _, p := range pairs {
		if !p.stayed() {
			continue
		}
		keys := map[string]bool{}
		for key, g := range c.lone {
			if g != p.group {
				keys[key] = true
			}
		}
		if len(keys) == 0 {
			continue
		}
		err := c.src.ReadKeys(ctx, *p.after, table.Columns{}, keys, func(r table.Row) error {
			if c.apart == nil {
				c.apart = map[uint64]bool{}
			}
			c.apart[maphash.String(c.seed, r.Key)], found = true, true
			return nil
		})
		if err != nil {
			return c.failed(p, true, err)
		}
	}
	if found {
		return errCopies
	}
	return nil
}

// copies looks for keys that were classified more than once: pairs are right only where a key occurs once on each
// side. Such a key is compared anew, by the rule for copies.
func (c *comparison) copies() error {
	found := map[uint64]bool{}
	for _, list := range c.met {
		slices.Sort(list)
		for i := 1; i < len(list); i++ {
			if list[i] == list[i-1] {
				found[list[i]] = true
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	if c.apart == nil {
		c.apart = found
	} else {
		maps.Copy(c.apart, found)
	}
	return errCopies
}

// isApart says whether a key is known to have copies.
func (c *comparison) isApart(key []byte) bool {
	if c.apart == nil && c.req.Suspects.none() {
		return false
	}
	h := maphash.Bytes(c.seed, key)
	return c.apart[h] || c.req.Suspects.has(h)
}

// setApart keeps a row out of the comparison by pairs if its key is known to have copies.
func (c *comparison) setApart(after bool, v *view) bool {
	if !c.isApart(v.key) {
		return false
	}
	s := c.before
	if after {
		s = c.after
	}
	s.add(c.hold(v), c.locator(v), true)
	return true
}

// outside reads the copies of the keys set apart that were not read with the rewritten groups: those in groups whose base file stayed,
// and those in groups that the unit did not touch, which are the same before and after.
func (c *comparison) outside(ctx context.Context, pairs []pairOf) error {
	touched := map[table.Group]*pairOf{}
	for i := range pairs {
		touched[pairs[i].group] = &pairs[i]
	}
	unread := map[table.Group]map[string]bool{}
	note := func(g table.Group, key string) {
		if unread[g] == nil {
			unread[g] = map[string]bool{}
		}
		unread[g][key] = true
	}
	for _, key := range c.setApartKeys() {
		c.work.Apart++
		for _, g := range c.stayed {
			note(g, key)
		}
		if c.req.Suspects == nil {
			continue
		}
		for _, g := range c.req.Suspects.groups[maphash.String(c.seed, key)] {
			if touched[g] == nil {
				note(g, key)
			}
		}
	}
	for _, g := range slices.SortedFunc(maps.Keys(unread), compareGroups) {
		if p := touched[g]; p != nil {
			if err := c.readCopies(ctx, *p.before, unread[g], true, c.before); err != nil {
				return c.failed(*p, false, err)
			}
			if err := c.readCopies(ctx, *p.after, unread[g], true, c.after); err != nil {
				return c.failed(*p, true, err)
			}
			continue
		}
		s, ok, err := c.src.Slice(g, c.req.After())
		if err == nil && !ok {
			continue // replaced since it was found to hold the key
		}
		if err == nil {
			c.work.Outside++
			err = c.readCopies(ctx, s, unread[g], false, c.before, c.after)
		}
		if err != nil {
			return c.lostOutside(g, err)
		}
	}
	return nil
}

// readCopies reads rows of keys into sides.
func (c *comparison) readCopies(ctx context.Context, s table.Slice, keys map[string]bool, touched bool, into ...*side) error {
	place := c.place(&s)
	return c.src.ReadKeys(ctx, s, c.columns, keys, func(r table.Row) error {
		h := c.hold(&view{key: []byte(r.Key), raw: r.Vectors, commit: []byte(r.CommitTime), place: place, position: r.Position})
		for _, side := range into {
			side.add(h, c.locator(&h.view), touched)
		}
		return nil
	})
}

// lostOutside says what an error of reading an untouched group means.
func (c *comparison) lostOutside(g table.Group, err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("read copies in %s at %s: %w: %w", g, c.req.last(), err, ErrElsewhere)
	}
	return fmt.Errorf("read copies in %s at %s: %w", g, c.req.last(), err)
}

func (c *comparison) setApartKeys() []string {
	keys := maps.Clone(c.seen)
	for _, s := range []*side{c.before, c.after} {
		for key := range s.rows {
			keys[key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// classifyApart compares the keys set apart: for the counts as the touched groups show them, for the changes as the table does.
func (c *comparison) classifyApart() error {
	var where []Copies
	for _, key := range c.setApartKeys() {
		b, n := c.before.of(key), c.after.of(key)
		if b.touched != nil || n.touched != nil {
			if err := c.fresh(b.touched.row(), n.touched.row()); err != nil {
				return err
			}
		}
		c.work.Examined++
		for i := range c.results {
			r := &c.results[i]
			r.duplicate(key, max(0, n.rows-1))
			var change delta.Change
			if b.touched != nil || n.touched != nil {
				var reason string
				if change, reason = c.judge(i, b.touched.row(), n.touched.row()); reason != "" {
					r.unindexable(reason)
				}
			}
			if change.Class != 0 {
				r.Counts[change.Class]++
			}
			if b.last != b.touched || n.last != n.touched || c.known[i].known != nil {
				change = c.net(i, key, b.last, n.last)
			}
			if change.Class != 0 && change.Class != delta.Unchanged {
				if err := c.hand(i, []byte(key), change); err != nil {
					return err
				}
			}
		}
		where = append(where, n.where(key))
	}
	for i := range c.results {
		c.results[i].Copies = where
	}
	return nil
}

// net is what became of a key's row in the whole table. Where slices are or were gone, the row before may not be the one that the index has a
// posting of: it is asked.
func (c *comparison) net(i int, key string, b, n *copyOf) delta.Change {
	if b == nil && n == nil {
		return delta.Change{}
	}
	change, _ := c.judge(i, b.row(), n.row())
	posting := c.known[i].version(key)
	if c.known[i].known == nil || posting != nil && change.Old != nil && posting.Locator == change.Old.Locator {
		return change
	}
	change.Old = posting
	change.Class = classOf(change.Old, change.New)
	return change
}

// side is the rows of one side whose keys are set apart. A commit that the side does not incorporate counts as one whose completion is not known,
// whatever is known of it by now: so the choice among copies is the one that was made when the side was the index's state.
type side struct {
	completion func(requested string) string
	rows       map[string]*copiesOf
}

// copiesOf is what is known of a key's copies.
type copiesOf struct {
	last    *copyOf // written last
	touched *copyOf // written last among the touched groups
	rows    int64
	in      []table.Group
}

// copyOf is a row with what tells copies apart.
type copyOf struct {
	view
	written table.Written
}

func (c *comparison) newSide(in func(timeline.Instant) bool) *side {
	return &side{completion: table.CompletedIn(c.req.Completion, in), rows: map[string]*copiesOf{}}
}

// of returns what the side has of a key, empty if it has nothing.
func (s *side) of(key string) *copiesOf {
	if x := s.rows[key]; x != nil {
		return x
	}
	return &copiesOf{}
}

func (s *side) add(h *held, loc delta.Locator, touched bool) {
	g := table.Group{Partition: loc.Partition, FileID: loc.FileID}
	r, key := &copyOf{view: h.view, written: table.WrittenAt(s.completion, g, loc.BaseInstant, string(h.commit), loc.Position)}, string(h.key)
	x := s.rows[key]
	if x == nil {
		x = &copiesOf{}
		s.rows[key] = x
	}
	x.rows++
	if !slices.Contains(x.in, g) {
		x.in = append(x.in, g)
	}
	if x.last == nil || r.written.Compare(x.last.written) > 0 {
		x.last = r
	}
	if touched && (x.touched == nil || r.written.Compare(x.touched.written) > 0) {
		x.touched = r
	}
}

func (x *copiesOf) where(key string) Copies {
	w := Copies{Key: key, Rows: x.rows}
	if x.last == nil {
		return w
	}
	w.Groups = []table.Group{x.last.written.Group}
	for _, g := range slices.SortedFunc(slices.Values(x.in), compareGroups) {
		if g != w.Groups[0] {
			w.Groups = append(w.Groups, g)
		}
	}
	return w
}

// row is the copy as a row, nil if there is none.
func (r *copyOf) row() *view {
	if r == nil {
		return nil
	}
	return &r.view
}

func compareGroups(a, b table.Group) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.FileID, b.FileID))
}
