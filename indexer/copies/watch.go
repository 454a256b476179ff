package copies

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"tidemark/diffing"
	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/timeline"
)

// Stats is what finding copies of record keys took in a Sync, and what it knows in the end (design, decision 17).
type Stats struct {
	// Keys are the record keys known to live more than once, More says that there are further ones.
	Keys int64
	More bool
	// Looked counts keys that were looked up in the record index.
	Looked int64
	// Scanned counts file groups whose key column was read because the record index could not tell, Reason says why.
	Scanned int64
	Reason  string
	// Again counts batches that were compared anew because copies were found.
	Again int64
}

// Add adds what another batch of the same call took and knows.
func (s *Stats) Add(o Stats) {
	s.Keys, s.More = o.Keys, o.More
	s.Looked, s.Scanned, s.Again = s.Looked+o.Looked, s.Scanned+o.Scanned, s.Again+o.Again
	if o.Reason != "" {
		s.Reason = o.Reason
	}
}

// Watch knows the record keys that live more than once in the table, and finds those that come to. A key that a unit of instants puts
// into the table may live already in a group that the unit did not touch; only then can it become one with copies. So such fresh
// keys are looked up as the table was before the batch: in the record index if there is one that can answer, else by one scan of the key
// column of every file group. Where a copy is found the batch is compared anew with that knowledge, which is rare.
//
// Each unit is begun, compared, and then done or undone; when all of a batch are done, Find says whether the batch must be compared anew from its
// first unit on, and if not, Copies what is known after it. It holds 16 bytes a fresh key. Keys that were found stay suspects for the life of the
// watch. It is not safe for concurrent use.
type Watch struct {
	table   *table.Table
	writes  []timeline.Instant
	files   *table.Files
	indexes []Index
	before  func(timeline.Instant) bool // what the indexes incorporate

	suspects *diffing.Suspects
	known    map[string]mdt.CopiedKey // before the batch
	more     bool

	units   []unitSeen
	fresh   []freshKey
	mark    int // of the unit at hand
	groups  []table.Group
	numbers map[table.Group]uint32
	asked   []askedKey // fresh keys that wait for the record index
	found   map[copyPlace]map[uint64]bool
	lived   []diffing.Copies // of all units, in their order
	learned map[copyOf]int   // suspects that came up in this attempt, and the unit behind which

	since map[string]int              // requested times of the batch, and the unit that covers them
	write map[string]timeline.Instant // writes by requested time, made when first asked for

	records *mdt.MDT
	scan    string // why the record index cannot answer; "": it can, or was not asked yet
	opened  bool
	stats   Stats
}

var _ diffing.Fresh = (*Watch)(nil)

// Index is an index whose postings tell of what the table can no longer.
type Index struct {
	State      *mdt.Index // what it knows of copies, and its name
	View       *mdt.View
	Generation *generation.Generation
}

// unitSeen is one unit of the batch.
type unitSeen struct {
	touched  map[table.Group]bool
	instants []timeline.Instant
	after    func(timeline.Instant) bool // what is incorporated once the unit is
}

// freshKey is a key that a unit put into a group.
type freshKey struct {
	hash        uint64
	unit, group uint32
}

// copyOf is a group that may hold a key.
type copyOf struct {
	hash  uint64
	group table.Group
}

// askedKey is a fresh key for the record index.
type askedKey struct {
	key  string
	unit uint32
}

// copyPlace is a group that may hold copies of keys which a unit put elsewhere.
type copyPlace struct {
	unit  uint32
	group table.Group
}

const (
	// askBatch is how many keys are looked up in the record index at once.
	askBatch = 4096
	// mostAsked bounds the fresh keys that wait for a look-up: beyond it one scan of the key columns is cheaper anyway.
	mostAsked = 1 << 18
)

// New returns the watch of indexes that stand at one place, which is what their state calls incorporated: before says which writes these are.
// files are those of the table, writes all its data writes; neither is changed. It reads nothing.
func New(t *table.Table, files *table.Files, writes []timeline.Instant, indexes []Index, before func(timeline.Instant) bool) *Watch {
	w := &Watch{table: t, files: files, writes: writes, indexes: indexes, before: before, suspects: diffing.NewSuspects(), known: map[string]mdt.CopiedKey{}}
	for _, x := range indexes {
		if x.State.Copies == nil {
			continue
		}
		w.more = w.more || x.State.Copies.More
		for _, k := range x.State.Copies.Keys {
			w.known[k.Key] = k
			for _, g := range k.Groups {
				w.suspects.Add(w.suspects.Hash([]byte(k.Key)), table.Group{Partition: g.Partition, FileID: g.FileID})
			}
		}
	}
	w.suspects.All = w.more
	w.restart()
	return w
}

// restart forgets the units of an attempt.
func (w *Watch) restart() {
	w.units, w.fresh, w.asked, w.lived, w.mark = nil, w.fresh[:0], nil, nil, 0
	w.since = map[string]int{}
	w.groups, w.numbers, w.found, w.learned = nil, map[table.Group]uint32{}, map[copyPlace]map[uint64]bool{}, map[copyOf]int{}
}

// Begin makes a request one whose copies are watched. It is the next unit.
func (w *Watch) Begin(req *diffing.Request) {
	w.mark = len(w.fresh)
	unit := len(w.units)
	u := unitSeen{touched: map[table.Group]bool{}, instants: req.Instants}
	for _, i := range req.Instants {
		w.since[i.Requested] = unit
	}
	u.after = func(i timeline.Instant) bool { return w.incorporated(i.Requested, unit) }
	for _, g := range diffing.Touched(req.Metas) {
		u.touched[g] = true
	}
	w.units = append(w.units, u)
	req.Fresh, req.Suspects = w, w.suspects
}

// suspect makes a key a suspect for the units that come.
func (w *Watch) suspect(key string, groups []table.Group, unit int) {
	for _, g := range groups {
		if p := (copyOf{w.suspects.Hash([]byte(key)), g}); w.suspects.Add(p.hash, g) {
			w.learned[p] = unit
		}
	}
}

// Undo takes back Begin: the unit is not part of the batch.
func (w *Watch) Undo() {
	w.Reset()
	for _, i := range w.units[len(w.units)-1].instants {
		delete(w.since, i.Requested)
	}
	w.units = w.units[:len(w.units)-1]
}

// incorporated says whether a write is incorporated once a unit of the batch is.
func (w *Watch) incorporated(requested string, unit int) bool {
	if w.write == nil {
		w.write = make(map[string]timeline.Instant, len(w.writes))
		for _, i := range w.writes {
			w.write[i.Requested] = i
		}
	}
	i, ok := w.write[requested]
	if !ok {
		return false
	}
	since, batched := w.since[requested]
	return w.before(i) || batched && since <= unit && i.IsDataWrite()
}

// Add takes in a fresh key. It is a method of diffing.Fresh.
func (w *Watch) Add(key []byte, g table.Group) error {
	n, ok := w.numbers[g]
	if !ok {
		n = uint32(len(w.groups))
		w.numbers[g], w.groups = n, append(w.groups, g)
	}
	unit := uint32(len(w.units) - 1)
	w.fresh = append(w.fresh, freshKey{w.suspects.Hash(key), unit, n})
	switch {
	case w.scan != "" || w.more:
	case len(w.asked) == mostAsked:
		w.scan, w.asked = fmt.Sprintf("a commit put more than %d new keys into the table", mostAsked), nil
	default:
		w.asked = append(w.asked, askedKey{string(key), unit})
	}
	return nil
}

// Reset forgets what was added since Begin. It is a method of diffing.Fresh.
func (w *Watch) Reset() {
	w.fresh = w.fresh[:w.mark]
	unit := uint32(len(w.units) - 1)
	w.asked = slices.DeleteFunc(w.asked, func(a askedKey) bool { return a.unit == unit })
}

// Done takes in what a unit found, and looks its fresh keys up if there are many.
func (w *Watch) Done(ctx context.Context, results []diffing.Result) error {
	if len(results) > 0 {
		w.lived = append(w.lived, results[0].Copies...)
		for _, c := range results[0].Copies {
			w.suspect(c.Key, c.Groups, len(w.units)-1)
		}
	}
	if len(w.asked) < askBatch {
		return nil
	}
	return w.ask(ctx)
}

// Copies returns what the state is to know after the batch, whose instants are those for which in is true.
func (w *Watch) Copies(ctx context.Context, in func(timeline.Instant) bool) (*mdt.Copies, Stats, error) {
	now := maps.Clone(w.known)
	var single []string
	for _, c := range w.lived {
		delete(now, c.Key)
		if c.Rows == 0 {
			continue
		}
		k := mdt.CopiedKey{Key: c.Key, Rows: c.Rows}
		for _, g := range c.Groups {
			k.Groups = append(k.Groups, mdt.CopiedIn{Partition: g.Partition, FileID: g.FileID})
		}
		now[c.Key] = k
	}
	for key, k := range now {
		if k.Rows == 1 {
			single = append(single, key)
		}
	}
	slices.Sort(single)
	if err := w.settled(ctx, in, single, now); err != nil {
		return nil, Stats{}, err
	}
	known := mdt.NewCopies(slices.Collect(maps.Values(now)), w.more)
	w.stats.Keys, w.stats.More = known.Duplicates(), w.more || known != nil && known.More
	return known, w.stats, nil
}

// settled drops keys of which one copy is left, unless the record index does not name it: then neither Hudi nor a later look-up would find
// that copy.
func (w *Watch) settled(ctx context.Context, in func(timeline.Instant) bool, single []string, now map[string]mdt.CopiedKey) error {
	if len(single) == 0 {
		return nil
	}
	scan := w.scan
	w.scan = ""
	where, err := w.lookUp(ctx, in, single)
	if err != nil {
		return err
	}
	unknown := w.scan != "" && w.records != nil
	w.scan = scan
	for _, key := range single {
		at, ok := where[key]
		if g := now[key].Groups[0]; !unknown && (w.records == nil || ok && at.Partition == g.Partition && at.FileID == g.FileID) {
			delete(now, key)
		}
	}
	return nil
}
