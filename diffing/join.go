package diffing

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"tidemark/delta"
)

const (
	// defaultWindow is what may wait in memory: 64 MiB, an eighth of the smallest machine that is supported.
	defaultWindow = 64 << 20
	// heldOverhead is what a waiting row takes beside its bytes: map entry, slice headers.
	heldOverhead = 160
)

// view is a row of one side. In a cursor it aliases pages and is reused; see hold.
type view struct {
	key, commit []byte
	raw         [][]byte
	place       int // of its slice, see comparison.place
	position    int64
}

// held is a row that waits for its counterpart, on its own memory.
type held struct {
	view
	next *held // a further row of the same key
}

func (v *view) size() int64 {
	n := int64(heldOverhead + len(v.key) + len(v.commit))
	for _, b := range v.raw {
		n += int64(len(b)) + 24
	}
	return n
}

// hold copies a row off the pages that it aliases, into one piece of memory.
func (c *comparison) hold(v *view) *held {
	n := len(v.key) + len(v.commit)
	for _, b := range v.raw {
		n += len(b)
	}
	buf := make([]byte, 0, n)
	put := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		from := len(buf)
		buf = append(buf, b...)
		return buf[from:len(buf):len(buf)]
	}
	h := &held{view: view{key: put(v.key), commit: put(v.commit), place: v.place, position: v.position, raw: make([][]byte, len(v.raw))}}
	for i, b := range v.raw {
		h.raw[i] = put(b)
	}
	return h
}

func (c *comparison) locator(v *view) delta.Locator {
	l := c.places[v.place]
	l.Position = v.position
	return l
}

// cursor walks one slice's rows; without rows there are none.
type cursor struct {
	c     *comparison
	p     pairOf
	rows  Rows
	place int
	after bool
	row   view
}

// next moves on and returns the row, nil behind the last one.
func (x *cursor) next(ctx context.Context) (*view, error) {
	for x.rows != nil {
		r, err := x.rows.Next(ctx)
		if err != nil {
			return nil, x.c.failed(x.p, x.after, err)
		}
		if r == nil {
			x.rows = nil
			break
		}
		x.row = view{key: r.Key, commit: r.Commit, raw: r.Vectors, place: x.place, position: r.Position}
		if x.after && x.p.gone {
			x.c.blind[string(r.Key)] = true
		}
		if !x.c.setApart(x.after, &x.row) {
			return &x.row, nil
		}
	}
	return nil, nil
}

// step walks both slices of a group in step. A rewrite keeps the order of rows, so that mostly the keys of both
// heads are equal. Where they are not, both rows wait, and each side goes on while its head finds its counterpart waiting: after a run
// of n rows that only one side has, n rows of each have waited, and the heads are equal again.
func (c *comparison) step(ctx context.Context, l, r *cursor) error {
	b, err := l.next(ctx)
	if err != nil {
		return err
	}
	n, err := r.next(ctx)
	if err != nil {
		return err
	}
	for b != nil || n != nil {
		if b != nil && n != nil && bytes.Equal(b.key, n.key) {
			if err := c.meet(b, n); err != nil {
				return err
			}
			if b, err = l.next(ctx); err != nil {
				return err
			}
			if n, err = r.next(ctx); err != nil {
				return err
			}
			continue
		}
		met := false
		if b != nil {
			if met, err = c.window.match(0, b); err != nil {
				return err
			}
			if met {
				if b, err = l.next(ctx); err != nil {
					return err
				}
				continue
			}
		}
		if n != nil {
			if met, err = c.window.match(1, n); err != nil {
				return err
			}
			if met {
				if n, err = r.next(ctx); err != nil {
					return err
				}
				continue
			}
		}
		if b != nil {
			if err := c.window.put(0, b); err != nil {
				return err
			}
			if b, err = l.next(ctx); err != nil {
				return err
			}
		}
		if n != nil {
			if err := c.window.put(1, n); err != nil {
				return err
			}
			if n, err = r.next(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// window holds rows of both sides, of all groups of the comparison, that wait for their counterpart. Beyond its limit they go to disk, by
// the hash of their keys, and meet there in the end.
type window struct {
	c     *comparison
	limit int64
	rows  [2]map[string]*held // before, after
	bytes int64
	disk  *spill
	// newOnly says that no row before is to come: a row after that finds no counterpart waiting has none.
	newOnly bool
}

// take lets a row meet its counterpart, or wait.
func (w *window) take(side int, v *view) error {
	if met, err := w.match(side, v); met || err != nil {
		return err
	}
	return w.put(side, v)
}

// match looks for a waiting counterpart.
func (w *window) match(side int, v *view) (bool, error) {
	other := w.rows[1-side]
	if len(other) == 0 {
		return false, nil
	}
	h := other[string(v.key)]
	if h == nil {
		return false, nil
	}
	if h.next == nil {
		delete(other, string(v.key))
	} else {
		other[string(v.key)] = h.next
	}
	w.bytes -= h.size()
	if side == 0 {
		return true, w.c.meet(v, &h.view)
	}
	return true, w.c.meet(&h.view, v)
}

func (w *window) put(side int, v *view) error {
	if side == 1 && w.newOnly && w.disk == nil {
		return w.c.meet(nil, v)
	}
	h := w.c.hold(v)
	h.next = w.rows[side][string(h.key)]
	w.rows[side][string(h.key)] = h
	w.bytes += h.size()
	w.c.work.Held = max(w.c.work.Held, w.bytes)
	if w.bytes <= w.limit {
		return nil
	}
	return w.spill()
}

// spill moves what waits to disk.
func (w *window) spill() error {
	if w.disk == nil {
		w.disk = newSpill(w.c.req.TempDir, w.c.seed)
	}
	for side := range w.rows {
		for _, key := range slices.Sorted(maps.Keys(w.rows[side])) {
			for h := w.rows[side][key]; h != nil; h = h.next {
				if err := w.disk.put(side, &h.view); err != nil {
					return err
				}
				w.c.work.Spilled++
			}
		}
		clear(w.rows[side])
	}
	w.bytes = 0
	return nil
}

// finish classifies what found no counterpart.
func (w *window) finish() error {
	if w.disk == nil {
		return w.leave()
	}
	if err := w.spill(); err != nil {
		return err
	}
	for part := range parts {
		for side := range w.rows { // rows before are taken in, rows after meet them
			err := w.disk.read(part, side, len(w.c.columns.Vectors), func(v *view) error {
				if met, err := w.match(side, v); met || err != nil {
					return err
				}
				if side == 1 {
					return w.c.meet(nil, v)
				}
				h := w.c.hold(v)
				h.next = w.rows[0][string(h.key)]
				w.rows[0][string(h.key)] = h
				w.bytes += h.size()
				w.c.work.Held = max(w.c.work.Held, w.bytes)
				return nil
			})
			if err != nil {
				return err
			}
		}
		if err := w.leave(); err != nil {
			return err
		}
	}
	return nil
}

// leave classifies the rows that still wait in memory as rows that one side only has.
func (w *window) leave() error {
	for side := range w.rows {
		for _, h := range w.rows[side] {
			for ; h != nil; h = h.next {
				b, n := &h.view, (*view)(nil)
				if side == 1 {
					b, n = nil, &h.view
				}
				if err := w.c.meet(b, n); err != nil {
					return err
				}
			}
		}
		clear(w.rows[side])
	}
	w.bytes = 0
	return nil
}

func (w *window) close() error {
	if w == nil || w.disk == nil {
		return nil
	}
	return w.disk.close()
}
