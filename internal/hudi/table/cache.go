package table

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Cache is what one process keeps of a table between its looks: timeline, metadata, and what each instant says about files. With
// it a look costs one listing and one Stat, and what is new is read once. Keep one for each table that is opened again and
// again; it is safe for concurrent use.
type Cache struct {
	st     storage.Store
	reader *timeline.Reader
	// What is kept of base files for all tables that share it; nil: no pages, and the footers of one look.
	pages   *basefile.Pages
	footers *basefile.Footers

	mu   sync.Mutex        // guards what follows
	each map[string]*facts // what one completed instant alone says, of the last look
	tl   *timeline.Timeline
	all  *facts // what they say together, of tl

	begun      *timeline.Timeline // by Begin; nil: none
	begunProps *timeline.Properties
}

// NewCache returns an empty cache for the table at the root of st. It reads nothing.
func NewCache(st storage.Store) *Cache {
	return &Cache{st: st, reader: timeline.NewReader(st, HoodieDir)}
}

// Keep keeps pages of base files that are read by position, and footers from one look to the next, for all tables that share p and f.
// Call it before the first look.
func (c *Cache) Keep(p *basefile.Pages, f *basefile.Footers) { c.pages, c.footers = p, f }

// Reader returns the reader of the table's timeline.
func (c *Cache) Reader() *timeline.Reader { return c.reader }

// At returns the table at a look of the cache's Reader, without asking for anything and without its Schema.
func (c *Cache) At(p *timeline.Properties, tl *timeline.Timeline) *Table {
	return &Table{Store: c.st, Props: p, Timeline: tl, cache: c, from: tl.Earliest()}
}

// Commit returns the metadata of a commit, deltacommit or replacecommit, active or archived. Errors as timeline.ReadCommit and
// timeline.Archive.Commit; what they return is shared and must not be changed.
func (t *Table) Commit(ctx context.Context, inst timeline.Instant) (*timeline.CommitMetadata, error) {
	return t.cache.reader.Commit(ctx, t.Props, inst)
}

// SchemaText returns the schema of the look at its newest write, as timeline.TableSchema, without reading a commit twice.
func (t *Table) SchemaText(ctx context.Context) (string, error) {
	return t.cache.reader.Schema(ctx, t.Props, t.Timeline, "")
}

// clean returns the metadata of a clean, active or archived.
func (t *Table) clean(ctx context.Context, inst timeline.Instant) (*timeline.CleanMetadata, error) {
	if inst.Archived {
		return t.Archive().Clean(ctx, inst)
	}
	return timeline.ReadClean(ctx, t.Store, HoodieDir, t.Props, inst)
}

// Archive returns the table's archived timeline.
func (t *Table) Archive() *timeline.Archive { return t.cache.reader.Archive(t.Props) }

// Since returns the same look with a longer history: its Timeline also has the archived data writes (and cleans) that completed
// after a time ("" = all; timeline.Archive.Writes), and its Files ask Cut.In about those writes as about active ones. What was
// archived and completed up to then is in every snapshot. storage.ErrStale says that the table has archived meanwhile: open it
// again.
func (t *Table) Since(ctx context.Context, after string) (*Table, error) {
	tl, err := t.cache.reader.Since(ctx, t.Props, t.Timeline, after)
	if err != nil {
		if after == "" {
			return nil, fmt.Errorf("read the whole history: %w", err)
		}
		return nil, fmt.Errorf("read history since %s: %w", after, err)
	}
	return &Table{Store: t.Store, Props: t.Props, Timeline: tl, Schema: t.Schema, cache: t.cache, from: min(t.from, after)}, nil
}

// broadCommits bounds the commits that are read at once: the reader's memory of them is bounded, too.
const broadCommits = 256

func factsKey(inst timeline.Instant) string {
	return fmt.Sprintf("%s %s %s %d %d", inst.Requested, inst.Action, inst.File, inst.Size, inst.ModTime.UnixNano())
}

// Begin is timeline.Reader.Begin for the next Open, which then reads the commits beside the second half of its look. If that Open returns
// the same timeline it is of the moment between.
func (c *Cache) Begin(ctx context.Context) *timeline.Timeline {
	p, tl := c.reader.Begin(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun, c.begunProps = tl, p
	return tl
}

// look is the reader's Open, for the second half of a look that was begun.
func (c *Cache) look(ctx context.Context) (p *timeline.Properties, tl *timeline.Timeline, err error) {
	c.mu.Lock()
	begun, props := c.begun, c.begunProps
	c.begun, c.begunProps = nil, nil
	c.mu.Unlock()
	if begun == nil {
		return c.reader.Open(ctx)
	}
	err = storage.Together(c.st, func() (err error) {
		p, tl, err = c.reader.Open(ctx)
		return err
	}, func() error {
		_ = c.ahead(ctx, props, begun, nil) // what fails is read again
		return nil
	})
	return p, tl, err
}

// ahead reads the active commits of a look at once, which the reader keeps, without those that known has. That one is damaged or gone is
// said where it is used.
func (c *Cache) ahead(ctx context.Context, p *timeline.Properties, tl *timeline.Timeline, known map[string]*facts) error {
	var calls []func() error
	for _, inst := range tl.Writes() {
		if inst.Archived || known[factsKey(inst)] != nil || len(calls) == broadCommits {
			continue
		}
		calls = append(calls, func() error {
			_, err := c.reader.Commit(ctx, p, inst)
			if errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrNotFound) {
				return nil
			}
			return err
		})
	}
	return storage.Together(c.st, calls...)
}

// facts returns what the completed instants of a look say about files. Metadata is read once for all looks.
func (c *Cache) facts(ctx context.Context, t *Table) (*facts, error) {
	whole := t.Timeline.Whole()
	c.mu.Lock()
	all, same, each := c.all, c.tl == whole, c.each
	c.mu.Unlock()
	if same {
		return all, nil
	}
	now, all := map[string]*facts{}, newFacts()
	add := func(inst timeline.Instant, read func(f *facts) error) error {
		key := factsKey(inst)
		f := each[key]
		if f == nil {
			f = newFacts()
			if err := read(f); err != nil {
				return stale(fmt.Errorf("read %s %s: %w", inst.Action, inst.Requested, err))
			}
		}
		if len(f.damaged) == 0 { // what is damaged may be repaired
			now[key] = f
		}
		all.merge(f)
		return nil
	}
	if storage.IsBroad(c.st) {
		if err := c.ahead(ctx, t.Props, whole, each); err != nil {
			return nil, err
		}
	}
	for _, inst := range whole.Writes() {
		err := add(inst, func(f *facts) error {
			m, err := t.Commit(ctx, inst)
			if errors.Is(err, storage.ErrCorrupt) {
				// What it wrote is not known: every snapshot that holds it is refused, earlier ones can still be read.
				f.damaged[inst.Requested] = fmt.Errorf("read commit %s: %w", inst.Requested, err)
				return nil
			}
			if err == nil {
				f.addCommit(inst.Requested, m)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for _, inst := range whole.CompletedOf(timeline.Clean) {
		err := add(inst, func(f *facts) error {
			m, err := t.clean(ctx, inst)
			if err == nil {
				f.addClean(m)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.each = now
	if len(all.damaged) == 0 {
		c.tl, c.all = whole, all
	}
	return all, nil
}

// merge adds what another instant says.
func (f *facts) merge(one *facts) {
	for p, k := range one.files {
		old := f.files[p]
		if old == nil {
			c := *k
			f.files[p] = &c
			continue
		}
		for _, w := range k.writers {
			old.writers = old.writers[:len(old.writers):len(old.writers)]
			old.wrote(w)
		}
		old.expect = max(old.expect, k.expect)
		old.rows += k.rows
		old.cleaned = old.cleaned || k.cleaned
	}
	for g, instants := range one.replaced {
		f.replaced[g] = append(f.replaced[g][:len(f.replaced[g]):len(f.replaced[g])], instants...)
	}
	maps.Copy(f.damaged, one.damaged)
}
