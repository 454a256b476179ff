package batch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"tidemark/delta"
	"tidemark/internal/spill"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
)

// DefaultMemory is the bound of a batch unless told: 96 MiB.
const DefaultMemory = 96 << 20

// Config is what a batch needs. Builder is required, Element where changes come without narrowed vectors.
type Config struct {
	Builder *delta.Builder
	// Element and Dim are those of the stored vectors: changes whose versions have no narrowed vector get one from the stored bytes.
	Element kernel.Element
	Dim     int
	// Memory bounds the bytes of changes and records in memory; beyond it they are spilled. Defaults to DefaultMemory.
	Memory int64
	// TempDir is where the temporary files are made. Defaults to the system's folder for temporary files.
	TempDir string
	// Workers is the number of goroutines that route and encode. Defaults to GOMAXPROCS.
	Workers int
}

// Batch gathers the changes of the instants of one commit, in the order of the instants, and makes the records from them. It is not
// safe for concurrent use. Close it.
type Batch struct {
	cfg     Config
	part    int64 // a third of Memory: for the buffer, the net changes, the records
	waiting []delta.Change
	held    int64 // bytes of waiting
	slab    []byte
	unit    int   // changes of the unit at hand begin here in waiting
	unitSum int64 // its share of size
	size    int64
	attempt uint64 // tells the net changes of the unit at hand from others
	void    map[uint64]bool
	spread  bool // some of the unit's are among nets already

	versions []delta.Version // as slab
	order    []int32         // of waiting, by key

	nets    *spill.Sorter // by record key, in the order of time
	records *spill.Sorter // by file group and key; nil before Finish
	touched map[int]delta.Counters
	groups  map[int]bool
	count   Count
}

// Count is how many records a batch has.
type Count struct{ Deltas, Tombstones int64 }

// changeBytes is what a waiting change takes beside key and vectors.
const changeBytes = 400

// New returns an empty batch.
func New(cfg Config) *Batch {
	if cfg.Memory <= 0 {
		cfg.Memory = DefaultMemory
	}
	if cfg.Workers <= 0 {
		cfg.Workers = runtime.GOMAXPROCS(0)
	}
	b := &Batch{cfg: cfg, part: cfg.Memory / 3, void: map[uint64]bool{}, touched: map[int]delta.Counters{}, groups: map[int]bool{}}
	b.nets = spill.NewSorter(cfg.TempDir, b.part)
	return b
}

// Begin begins the next unit of instants: a Reset takes back what is added from here on.
func (b *Batch) Begin() {
	b.unit, b.unitSum, b.spread = len(b.waiting), 0, false
	b.attempt++
}

// Reset takes back what was added since Begin.
func (b *Batch) Reset() {
	for _, c := range b.waiting[b.unit:] {
		b.held -= weight(&c)
	}
	clear(b.waiting[b.unit:])
	b.waiting = b.waiting[:b.unit]
	b.size -= b.unitSum
	b.unitSum = 0
	if b.spread {
		b.void[b.attempt] = true
		b.attempt++
		b.spread = false
	}
}

// Size estimates what the changes come to as records: key, code and locator of each.
func (b *Batch) Size() int64 { return b.size }

// Add takes in what an instant did to a row. The key and what the versions point to are copied. An old row whose cluster cannot be known
// and a new one without a vector are storage.ErrRefused, here or later.
func (b *Batch) Add(ctx context.Context, class delta.Class, key []byte, before, after *delta.Version, instant string) error {
	c := delta.Change{Class: class, Key: string(key), Instant: instant}
	if before != nil {
		v := b.version(before)
		v.Raw = b.own(v.Raw)
		c.Old = v
	}
	if after != nil {
		v := b.version(after)
		if class == delta.LocatorRefresh && c.Old != nil {
			v.Raw = c.Old.Raw
		} else {
			v.Raw = b.own(v.Raw)
		}
		c.New = v
	}
	return b.AddChange(ctx, c)
}

// AddChange is Add for a change that the batch may keep.
func (b *Batch) AddChange(ctx context.Context, c delta.Change) error {
	if c.Class == delta.Unchanged || c.Class == delta.Unindexable {
		return nil
	}
	n := int64(2*len(c.Key) + 160)
	if c.New != nil {
		n += int64(len(c.New.Raw)) / 4
	}
	b.size += n
	b.unitSum += n
	b.waiting = append(b.waiting, c)
	if b.held += weight(&c); b.held < b.part {
		return nil
	}
	return b.flush(ctx)
}

func weight(c *delta.Change) int64 {
	n := int64(changeBytes + len(c.Key) + len(c.Also)*changeBytes)
	for _, v := range []*delta.Version{c.Old, c.New} {
		if v != nil {
			n += int64(len(v.Raw) + 4*len(v.Vector))
		}
	}
	return n
}

// own copies bytes into memory that is given up with the buffer.
func (b *Batch) own(raw []byte) []byte {
	if raw == nil {
		return nil
	}
	if len(raw) > cap(b.slab)-len(b.slab) {
		b.slab = make([]byte, 0, max(min(256<<10, 2*cap(b.slab)), 4<<10, len(raw)))
	}
	from := len(b.slab)
	b.slab = append(b.slab, raw...)
	return b.slab[from:len(b.slab):len(b.slab)]
}

// version copies a version into such memory.
func (b *Batch) version(v *delta.Version) *delta.Version {
	if len(b.versions) == cap(b.versions) {
		b.versions = make([]delta.Version, 0, min(256, max(8, 2*cap(b.versions))))
	}
	b.versions = append(b.versions, *v)
	return &b.versions[len(b.versions)-1]
}

// flush works out what waits. Changes of earlier units and of the one at hand stay apart, so that it can be taken back.
func (b *Batch) flush(ctx context.Context) error {
	if b.unit > 0 {
		if err := b.work(ctx, b.waiting[:b.unit], 0); err != nil {
			return err
		}
	}
	if len(b.waiting) > b.unit {
		if err := b.work(ctx, b.waiting[b.unit:], b.attempt); err != nil {
			return err
		}
		b.spread = true
	}
	clear(b.waiting)
	b.waiting, b.slab, b.versions, b.held, b.unit = b.waiting[:0], nil, nil, 0, 0
	return nil
}

// work merges changes by key, works them out and adds them to the net changes.
func (b *Batch) work(ctx context.Context, list []delta.Change, attempt uint64) error {
	b.order = b.order[:0]
	for i := range list {
		b.order = append(b.order, int32(i))
	}
	slices.SortFunc(b.order, func(x, y int32) int { return cmp.Or(strings.Compare(list[x].Key, list[y].Key), cmp.Compare(x, y)) })
	merged := b.order[:0]
	for _, i := range b.order {
		if n := len(merged); n > 0 && list[merged[n-1]].Key == list[i].Key {
			list[merged[n-1]] = list[merged[n-1]].Then(list[i])
			continue
		}
		merged = append(merged, i)
	}
	workers := make([]worker, max(1, min(b.cfg.Workers, (len(merged)+together-1)/together)))
	nets := make([]delta.Net, min(len(merged), len(workers)*spans*together))
	var key, value []byte
	for len(merged) > 0 {
		n := min(len(merged), len(nets))
		if err := b.encode(ctx, workers, list, merged[:n], nets[:n]); err != nil {
			return err
		}
		for i := range nets[:n] {
			key = append(key[:0], list[merged[i]].Key...)
			value = nets[i].AppendTo(binary.AppendUvarint(value[:0], attempt))
			if err := b.nets.Add(key, value); err != nil {
				return err
			}
		}
		merged = merged[n:]
	}
	return nil
}

const (
	// together is how many changes are routed and encoded at once.
	together = 64
	// spans is how many times together a worker does in one go.
	spans = 8
)

// worker is what one goroutine works with, used again.
type worker struct {
	room delta.Room
	span [together]delta.Change
	old  [together]delta.Version // those of the span that have their vectors in buf
	cur  [together]delta.Version
	buf  []float32 // vectors: of new rows, then of old ones
	err  error
	at   int // of the change with the error, or behind
}

// encode is the part that costs: it routes and encodes vectors, on several goroutines. nets[i] is of list[of[i]] and valid until the next call.
func (b *Batch) encode(ctx context.Context, workers []worker, list []delta.Change, of []int32, nets []delta.Net) error {
	var wg sync.WaitGroup
	for i := range workers {
		w := &workers[i]
		w.room.Reset()
		if w.buf == nil {
			w.buf = make([]float32, 2*together*b.cfg.Dim)
		}
		wg.Go(func() {
			for from := i * together; from < len(of) && ctx.Err() == nil; from += len(workers) * together {
				to := min(len(of), from+together)
				if w.err = b.encodeSpan(w, list, of[from:to], nets[from:to]); w.err != nil {
					w.at = from
					return
				}
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	var first *worker
	for i := range workers {
		if w := &workers[i]; w.err != nil && (first == nil || w.at < first.at) {
			first = w
		}
	}
	if first != nil {
		return first.err
	}
	return nil
}

// encodeSpan works out some changes, at most together. It stops at the first error.
func (b *Batch) encodeSpan(w *worker, list []delta.Change, of []int32, nets []delta.Net) error {
	span, d, at := w.span[:len(of)], b.cfg.Dim, 0
	next := func() []float32 { at++; return w.buf[(at-1)*d : at*d] }
	for i := range span {
		c := &span[i]
		*c = list[of[i]]
		if lacks(c.New) {
			if err := b.narrow(&c.New, &w.cur[i], next()); err != nil {
				return err
			}
		}
	}
	for i := range span {
		c := &span[i]
		if !lacks(c.Old) {
			continue
		}
		if c.New == &w.cur[i] && bytes.Equal(c.Old.Raw, c.New.Raw) {
			w.old[i] = *c.Old
			w.old[i].Vector = c.New.Vector
			c.Old = &w.old[i]
			continue
		}
		if err := b.narrow(&c.Old, &w.old[i], next()); err != nil {
			return err
		}
	}
	return b.cfg.Builder.Nets(span, nets, &w.room)
}

// lacks says that a version has no vector and needs the one that its stored bytes mean.
func lacks(v *delta.Version) bool { return v != nil && v.Vector == nil && !v.Routed && v.Raw != nil }

// narrow puts full, with its vector in buf, in the place of a version that lacks one.
func (b *Batch) narrow(v **delta.Version, full *delta.Version, buf []float32) error {
	if !kernel.ToFloat32(buf, (*v).Raw, b.cfg.Element) {
		return fmt.Errorf("build posting: vector of %d bytes: %w", len((*v).Raw), storage.ErrRefused)
	}
	*full = **v
	full.Vector = buf
	*v = full
	return nil
}

// Net hands on the net change of every key so far, ascending by key, those without effect left out. What it points to is valid during the
// call only.
func (b *Batch) Net(ctx context.Context, fn func(key []byte, n *delta.Net) error) error {
	if err := b.flush(ctx); err != nil {
		return err
	}
	var key, kept []byte
	var net, n delta.Net
	have := false
	done := func() error {
		if !have || !net.Effect() {
			return nil
		}
		return fn(key, &net)
	}
	for e, err := range b.nets.All() {
		if err != nil {
			return err
		}
		attempt, k := binary.Uvarint(e.Value)
		if b.void[attempt] {
			continue
		}
		if err := n.Parse(e.Value[k:]); err != nil {
			return err
		}
		if have && string(key) == string(e.Key) {
			kept = append(kept[:0], n.Value...) // the entry is gone when the next one is there
			net, net.Value = net.Then(n), kept
			continue
		}
		if err := done(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		key, kept = append(key[:0], e.Key...), append(kept[:0], n.Value...)
		net, net.Value, have = n, kept, true
	}
	return done()
}

// Spilled says how many bytes are in temporary files.
func (b *Batch) Spilled() int64 {
	n, _ := b.nets.Spilled()
	if b.records != nil {
		m, _ := b.records.Spilled()
		n += m
	}
	return n
}

// Close removes the temporary files and forgets everything.
func (b *Batch) Close() error {
	b.waiting, b.slab, b.versions, b.order = nil, nil, nil, nil
	err := b.nets.Close()
	if b.records != nil {
		err = errors.Join(err, b.records.Close())
	}
	return err
}
