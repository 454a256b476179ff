package diffing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"tidemark/delta"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
)

// comparison is one call of Compare. What it learns about the table makes it begin anew, what it learns about rows
// is forgotten then.
type comparison struct {
	src     Source
	req     Request
	columns table.Columns
	at      []int // each target's place among the vector columns
	seed    maphash.Seed

	gone  map[table.Group]bool // groups whose preceding slice vanished while it was read
	apart map[uint64]bool      // hashes of keys that were found more than once, suspects not among them

	// Of one run:
	results []Result
	known   []evidence // by target
	blind   map[string]bool
	places  []delta.Locator // of the slices read, without positions
	before  *side           // rows of keys apart
	after   *side
	window  *window
	met     [256][]uint64          // hashes of the keys that were classified, by their first byte
	stayed  []table.Group          // touched groups whose base file stayed
	lone    map[string]table.Group // keys that only one side has, and where
	seen    map[string]bool        // keys apart that new logs of those groups name
	narrow  [][]float32            // by target, for looking only
	slab    slab
	slots   [2]slot // of the change that is handed on
	work    Work
}

// lostError says that the preceding slice of a group vanished while it was read.
type lostError struct {
	group table.Group
	err   error
}

func (e *lostError) Error() string { return fmt.Sprintf("read slice of %s before: %v", e.group, e.err) }

// Compare classifies the rows of a unit for each target, in the order of the targets. Of a group whose base file
// stayed only the keys of new log blocks are read; a rewritten one is read once before and once after, both in step. Rows that are
// not read are not counted. A group whose preceding slice is gone is compared with what the index knows and named in
// Degraded. If an after-slice is gone the error is storage.ErrStale: the unit must be taken together with later
// instants (design decision 12).
//
// Copies of a key are found among all rows of the touched groups: a key that appears or disappears is looked up in those whose base
// file stayed as well. Those in groups that the unit did not touch are found where Request.Suspects names them. The counts tell of
// the touched groups alone, the changes of the whole table. See copies.go.
func Compare(ctx context.Context, src Source, req Request) ([]Result, error) {
	c := &comparison{src: src, req: req, seed: maphash.MakeSeed(), gone: map[table.Group]bool{}}
	if req.Suspects != nil {
		c.seed = req.Suspects.seed
	}
	c.columns, c.at = columnsOf(req.Targets)
	if c.req.Window <= 0 {
		c.req.Window = defaultWindow
	}
	for {
		err := c.run(ctx)
		var lost *lostError
		switch {
		case err == nil:
			return c.results, nil
		case errors.As(err, &lost) && !c.gone[lost.group]:
			c.gone[lost.group] = true
		case !errors.Is(err, errCopies):
			return nil, err
		}
		if req.Changes != nil {
			req.Changes.Reset()
		}
		if req.Fresh != nil {
			req.Fresh.Reset()
		}
	}
}

// pairOf is a touched group's slices.
type pairOf struct {
	group         table.Group
	before, after *table.Slice // nil: none
	gone          bool         // there was one before
}

// stayed says that both slices stand on the same base file.
func (p pairOf) stayed() bool {
	return p.before != nil && p.after != nil && table.Appended(*p.before, *p.after)
}

func (c *comparison) run(ctx context.Context) (err error) {
	c.work.Runs++
	c.work.Examined = 0
	c.before, c.after, c.blind, c.places = c.newSide(c.req.Incorporated), c.newSide(c.req.After()), map[string]bool{}, nil
	c.seen = map[string]bool{}
	c.results, c.met, c.narrow = make([]Result, len(c.req.Targets)), [256][]uint64{}, nil
	c.lone, c.stayed, c.slots = map[string]table.Group{}, nil, [2]slot{}
	pairs, degraded, err := c.slices()
	if err != nil {
		return err
	}
	for _, p := range pairs {
		if p.stayed() {
			c.stayed = append(c.stayed, p.group)
		}
	}
	if err := c.begin(ctx, degraded); err != nil {
		return err
	}
	c.window = &window{c: c, limit: c.req.Window, rows: [2]map[string]*held{{}, {}}}
	defer func() { err = errors.Join(err, c.window.close()) }()
	last := -1 // of the groups that have rows before
	for i, p := range pairs {
		if p.before != nil {
			last = i
		}
	}
	for i, p := range pairs {
		c.window.newOnly = i > last
		if c.req.Began != nil {
			c.req.Began(p.group)
		}
		if err := c.read(ctx, p); err != nil {
			return err
		}
	}
	if err := c.window.finish(); err != nil {
		return err
	}
	if err := c.elsewhere(ctx, pairs); err != nil {
		return err
	}
	if err := c.copies(); err != nil {
		return err
	}
	if err := c.outside(ctx, pairs); err != nil {
		return err
	}
	if err := c.classifyApart(); err != nil {
		return err
	}
	for i := range c.results {
		slices.SortFunc(c.results[i].Changes, func(a, b delta.Change) int { return cmp.Compare(a.Key, b.Key) })
		c.results[i].Work = c.work
	}
	return nil
}

// slices finds the slices of the touched groups, and which groups have lost the preceding one.
func (c *comparison) slices() (pairs []pairOf, degraded []table.Group, err error) {
	after := c.req.After()
	for _, g := range Touched(c.req.Metas) {
		p := pairOf{group: g, gone: c.gone[g]}
		s, ok, err := c.src.Slice(g, c.req.Incorporated)
		switch {
		case p.gone || errors.Is(err, storage.ErrNotFound):
			p.gone = true
			degraded = append(degraded, g)
		case err != nil:
			return nil, nil, fmt.Errorf("find slice of %s before %s: %w", g, c.req.first(), err)
		case ok:
			p.before = &s
		}
		now, ok, err := c.src.Slice(g, after)
		if errors.Is(err, storage.ErrNotFound) {
			return nil, nil, fmt.Errorf("find slice of %s after %s: %w: %w", g, c.req.last(), err, storage.ErrStale)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("find slice of %s after %s: %w", g, c.req.last(), err)
		}
		if ok {
			p.after = &now
		}
		pairs = append(pairs, p)
	}
	return pairs, degraded, nil
}

// begin prepares the results and asks for postings where slices are or were gone.
func (c *comparison) begin(ctx context.Context, degraded []table.Group) error {
	c.known = make([]evidence, len(c.req.Targets))
	for i, t := range c.req.Targets {
		r := &c.results[i]
		*r = Result{Index: t.Index, Counts: Counts{}, Reasons: map[string]int64{}, Degraded: degraded, Mode: Full}
		if len(degraded) > 0 {
			r.Mode = CurrentOnly
		}
		if len(c.req.Instants) > 1 {
			r.Mode = Merged
		}
		c.narrow = append(c.narrow, make([]float32, t.Vector.Dim))
		c.known[i] = evidence{blind: c.blind, degraded: degraded}
		if (len(degraded) > 0 || c.req.Hidden != nil && c.req.Hidden(t.Index)) && c.req.Known != nil {
			known, err := c.req.Known(ctx, t.Index)
			if err != nil {
				return fmt.Errorf("read postings of index %s: %w", t.Index, err)
			}
			c.known[i].known = known
		}
	}
	return nil
}

// read takes in the rows of one group, before and after.
func (c *comparison) read(ctx context.Context, p pairOf) error {
	if p.stayed() {
		return c.appended(ctx, p)
	}
	var l, r cursor
	if p.before != nil {
		rows, err := c.src.Rows(ctx, *p.before, c.columns, nil)
		if err != nil {
			return c.failed(p, false, err)
		}
		l = cursor{c: c, p: p, rows: rows, place: c.place(p.before)}
	}
	if p.after != nil {
		rows, err := c.src.Rows(ctx, *p.after, c.columns, l.rows)
		if err != nil {
			return c.failed(p, true, err)
		}
		r = cursor{c: c, p: p, rows: rows, place: c.place(p.after), after: true}
	}
	return c.step(ctx, &l, &r)
}

// appended takes in the rows of a group whose base file stayed.
func (c *comparison) appended(ctx context.Context, p pairOf) error {
	places := [2]int{c.place(p.before), c.place(p.after)}
	var own error
	err := c.src.ReadAppended(ctx, *p.before, *p.after, c.columns, func(after bool, r table.Row) error {
		side := 0
		if after {
			side = 1
		}
		v := view{key: []byte(r.Key), raw: r.Vectors, commit: []byte(r.CommitTime), place: places[side], position: r.Position}
		if c.isApart(v.key) {
			c.seen[r.Key] = true // all its rows are read later: not every one of a base file need be among these
			return nil
		}
		own = c.window.take(side, &v)
		return own
	})
	if own != nil {
		return own
	}
	if errors.Is(err, storage.ErrNotFound) {
		return &lostError{p.group, err} // if the file belongs to the slice after as well, the next run finds out
	}
	if err != nil {
		return fmt.Errorf("read logs of %s at %s: %w", p.group, c.req.last(), err)
	}
	return nil
}

// failed says what an error of reading a slice means.
func (c *comparison) failed(p pairOf, after bool, err error) error {
	switch gone := errors.Is(err, storage.ErrNotFound); {
	case gone && after:
		return fmt.Errorf("read slice of %s after %s: %w: %w", p.group, c.req.last(), err, storage.ErrStale)
	case gone:
		return &lostError{p.group, err}
	case after:
		return fmt.Errorf("read slice of %s after %s: %w", p.group, c.req.last(), err)
	}
	return fmt.Errorf("read slice of %s before %s: %w", p.group, c.req.first(), err)
}

// place numbers a slice, so that a waiting row need not carry its names.
func (c *comparison) place(s *table.Slice) int {
	c.places = append(c.places, delta.Locator{Partition: s.Partition, FileID: s.FileID, BaseInstant: s.Instant})
	return len(c.places) - 1
}
