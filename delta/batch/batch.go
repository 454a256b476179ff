package batch

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
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
		v := *before
		v.Raw = b.own(v.Raw)
		c.Old = &v
	}
	if after != nil {
		v := *after
		if class == delta.LocatorRefresh && c.Old != nil {
			v.Raw = c.Old.Raw
		} else {
			v.Raw = b.own(v.Raw)
		}
		c.New = &v
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
	b.waiting, b.slab, b.held, b.unit = b.waiting[:0], nil, 0, 0
	return nil
}

// work merges changes by key, works them out and adds them to the net changes.
func (b *Batch) work(ctx context.Context, list []delta.Change, attempt uint64) error {
	slices.SortStableFunc(list, func(x, y delta.Change) int { return cmp.Compare(x.Key, y.Key) })
	merged := list[:0]
	for _, c := range list {
		if n := len(merged); n > 0 && merged[n-1].Key == c.Key {
			merged[n-1] = merged[n-1].Then(c)
			continue
		}
		merged = append(merged, c)
	}
	nets, err := b.encode(ctx, merged)
	if err != nil {
		return err
	}
	var key, value []byte
	for i := range nets {
		key = append(key[:0], merged[i].Key...)
		value = nets[i].AppendTo(binary.AppendUvarint(value[:0], attempt))
		if err := b.nets.Add(key, value); err != nil {
			return err
		}
	}
	return nil
}

// encode is the part that costs: it routes and encodes vectors, on several goroutines.
func (b *Batch) encode(ctx context.Context, changes []delta.Change) ([]delta.Net, error) {
	nets, errs := make([]delta.Net, len(changes)), make([]error, len(changes))
	workers := max(1, min(b.cfg.Workers, (len(changes)+together-1)/together))
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			buf := make([]float32, 2*min(together, len(changes))*b.cfg.Dim)
			for from := w * together; from < len(changes) && ctx.Err() == nil; from += workers * together {
				to := min(len(changes), from+together)
				if !b.encodeSpan(changes[from:to], nets[from:to], errs[from:to], buf) {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return nets, nil
}

// together is how many changes are routed and encoded at once.
const together = 64

// encodeSpan works out some changes. buf has room for two vectors of each. It stops at the first error.
func (b *Batch) encodeSpan(changes []delta.Change, nets []delta.Net, errs []error, buf []float32) bool {
	span, d := slices.Clone(changes), b.cfg.Dim
	for i := range span {
		c := &span[i]
		if errs[i] = errors.Join(b.narrow(&c.Old, buf[2*i*d:(2*i+1)*d]), b.narrow(&c.New, buf[(2*i+1)*d:(2*i+2)*d])); errs[i] != nil {
			return false
		}
	}
	builder := b.cfg.Builder.Ahead(span)
	for i := range span {
		if nets[i], errs[i] = builder.Net(&span[i]); errs[i] != nil {
			return false
		}
	}
	return true
}

// narrow gives a version without a vector the one that its stored bytes mean, in buf.
func (b *Batch) narrow(v **delta.Version, buf []float32) error {
	if *v == nil || (*v).Vector != nil || (*v).Routed || (*v).Raw == nil {
		return nil
	}
	if !kernel.ToFloat32(buf, (*v).Raw, b.cfg.Element) {
		return fmt.Errorf("build posting: vector of %d bytes: %w", len((*v).Raw), storage.ErrRefused)
	}
	full := **v
	full.Vector = buf
	*v = &full
	return nil
}

// Net hands on the net change of every key so far, ascending by key, those without effect left out. What it points to is valid during the
// call only.
func (b *Batch) Net(ctx context.Context, fn func(key []byte, n *delta.Net) error) error {
	if err := b.flush(ctx); err != nil {
		return err
	}
	var key []byte
	var net delta.Net
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
		n, err := delta.ParseNet(e.Value[k:])
		if err != nil {
			return err
		}
		n.Value = slices.Clone(n.Value) // the entry is gone when the next one is there
		if have && string(key) == string(e.Key) {
			net = net.Then(n)
			continue
		}
		if err := done(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		key, net, have = append(key[:0], e.Key...), n, true
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
	b.waiting, b.slab = nil, nil
	err := b.nets.Close()
	if b.records != nil {
		err = errors.Join(err, b.records.Close())
	}
	return err
}
