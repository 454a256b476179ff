package timeline

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"tidemark/internal/storage"
)

// Reader follows one table's timeline in one process: what cannot have changed since the last look is not read again. It is
// safe for concurrent use; what it returns is shared and must not be changed.
type Reader struct {
	st    storage.Store
	dir   string
	cache *lru

	mu      sync.Mutex // guards what follows
	last    *seen      // the last look; nil: none, or its properties have changed
	begun   *seen      // the first half of a first look, for the next Open; nil: none
	archive *Archive
	history history            // of the look at both timelines that went back furthest
	schemas map[string]carried // by key: the schema that a write carries
}

// seen is a look with what it was made of.
type seen struct {
	props     *Properties
	propsInfo storage.Info
	infos     []storage.Info
	tl        *Timeline
	once      bool // listed once only
}

// NewReader returns a reader of the timeline that belongs to dir (see Load). It reads nothing.
func NewReader(st storage.Store, dir string) *Reader {
	return &Reader{st: st, dir: dir, cache: newLRU(cacheBytes), schemas: map[string]carried{}}
}

// openAttempts bounds how often a look is taken again while properties or instants change under it.
const openAttempts = 5

// Open returns properties and active timeline as one consistent look. The timeline is listed twice, since a listing of many
// files is not one moment, and the properties count only if their file is the same in between. When both are as in the last
// look, that one is returned, for one listing and one Stat.
//
// While writers go on committing, the last attempt accepts a first listing to which the second one only adds what is later. If
// not even that comes about it is storage.ErrStale. Other errors as Load and LoadProperties.
func (r *Reader) Open(ctx context.Context) (*Properties, *Timeline, error) {
	s, err := r.open(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	return s.props, s.tl, nil
}

// Glance is a look for who only asks whether single instants are there: the timeline is listed once, so that what appears meanwhile may
// be missed while something later is not. For one listing and one Stat, with news too. File is that of the properties.
type Glance struct {
	Props    *Properties
	File     storage.Info
	Timeline *Timeline
}

// Glance takes a Glance. Errors as Open.
func (r *Reader) Glance(ctx context.Context) (*Glance, error) {
	s, err := r.open(ctx, true)
	if err != nil {
		return nil, err
	}
	return &Glance{s.props, s.propsInfo, s.tl}, nil
}

func (r *Reader) open(ctx context.Context, once bool) (*seen, error) {
	for attempt := 1; attempt <= openAttempts; attempt++ {
		if s, err := r.look(ctx, attempt == openAttempts, once); s != nil || err != nil {
			return s, err
		}
	}
	return nil, &storage.Error{Op: "read timeline", Path: r.dir, Hint: "an upgrade, the archiver or many writers are at work: try again",
		Err: fmt.Errorf("the table changed under each of %d looks: %w", openAttempts, storage.ErrStale)}
}

// look is one attempt of Open, or of Glance (once); nil: something moved. The listing and the Stat of the properties may be made at
// once: without news both are as in the last look, in which they belonged together, and with news both are made again.
func (r *Reader) look(ctx context.Context, final, once bool) (*seen, error) {
	last := r.remembered()
	if last == nil && !once && storage.IsBroad(r.st) {
		s, err := r.half(ctx)
		if err != nil {
			return nil, err
		}
		if s.tl != nil {
			return r.settle(ctx, s, final)
		}
	}
	s := &seen{once: once}
	if last != nil {
		s.props, s.propsInfo = last.props, last.propsInfo
	} else {
		var err error
		if s.props, s.propsInfo, err = loadProperties(ctx, r.st, r.dir); err != nil {
			return nil, err
		}
	}
	infos, replaced, err := r.list(ctx, s, true)
	if replaced { // the next attempt reads the properties
		r.remember(nil)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if last != nil && (once || !last.once) && slices.EqualFunc(infos, last.infos, sameFile) {
		return last, nil
	}
	s.infos = infos
	if s.tl, err = build(infos, s.props.Zone); err != nil {
		return nil, err
	}
	if once {
		r.remember(s)
		return s, nil
	}
	return r.settle(ctx, s, final)
}

// Begin makes the first half of a first Open on a store that answers many calls at once: the properties and the first listing. The next
// Open takes the other half, so that what is read between the two is at one moment with it if that Open returns the same timeline. Where
// nothing can be begun, both results are nil: Open then does all, and says what is wrong.
func (r *Reader) Begin(ctx context.Context) (*Properties, *Timeline) {
	if r.remembered() != nil || !storage.IsBroad(r.st) {
		return nil, nil
	}
	s, err := r.half(ctx)
	if err != nil || s.tl == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = s
	return s.props, s.tl
}

// half returns what Begin read, or reads it. Both calls end before the second half begins, so that properties which are still the same
// then belonged to the first listing when it ended. Without tl the timeline is not where it usually is, or cannot be read there.
func (r *Reader) half(ctx context.Context) (*seen, error) {
	r.mu.Lock()
	s := r.begun
	r.begun = nil
	r.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s = &seen{}
	usual := &Properties{Layout: 2, TimelinePath: usualTimeline}
	var infos []storage.Info
	var listErr error
	err := storage.Together(r.st, func() (err error) {
		s.props, s.propsInfo, err = loadProperties(ctx, r.st, r.dir)
		return err
	}, func() error {
		infos, listErr = listFolder(ctx, r.st, usual.TimelineDir(r.dir))
		return nil
	})
	if err != nil || listErr != nil || s.props.CheckTimeline() != nil || s.props.TimelineDir(r.dir) != usual.TimelineDir(r.dir) {
		return s, err
	}
	if tl, err := build(infos, s.props.Zone); err == nil {
		s.infos, s.tl = infos, tl
	}
	return s, nil
}

// settle lists the timeline once more; nil: something moved since the first listing of s.
func (r *Reader) settle(ctx context.Context, s *seen, final bool) (*seen, error) {
	again, replaced, err := r.list(ctx, s, storage.IsBroad(r.st)) // else the Stat above came after the first listing
	if replaced {
		r.remember(nil)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(s.infos, again, sameFile) {
		later, err := build(again, s.props.Zone)
		if err != nil {
			return nil, err
		}
		if !s.tl.Equal(later) && !(final && s.tl.leadsTo(later)) {
			return nil, nil
		}
	}
	r.remember(s)
	return s, nil
}

// list lists the timeline of a look and, with stat, says whether its properties were replaced. A folder that is not there is an error only
// if they were not: an upgrade may have moved it.
func (r *Reader) list(ctx context.Context, s *seen, stat bool) (infos []storage.Info, replaced bool, err error) {
	var listErr error
	calls := []func() error{func() error {
		infos, listErr = listTimeline(ctx, r.st, r.dir, s.props)
		if errors.Is(listErr, storage.ErrNotFound) {
			return nil
		}
		return listErr
	}}
	if stat {
		calls = append(calls, func() error {
			info, err := r.st.Stat(ctx, s.propsInfo.Path)
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return fmt.Errorf("look at properties: %w", err)
			}
			replaced = err != nil || !sameFile(info, s.propsInfo)
			return nil
		})
	}
	if err := storage.Together(r.st, calls...); err != nil {
		return nil, false, err
	}
	return infos, replaced, listErr
}

// Poll says whether anything has changed on the timeline since the last Open, by one listing and no read. Without an Open
// before, it has.
func (r *Reader) Poll(ctx context.Context) (moved bool, err error) {
	last := r.remembered()
	if last == nil {
		return true, nil
	}
	infos, err := listTimeline(ctx, r.st, r.dir, last.props)
	return err != nil || !slices.EqualFunc(infos, last.infos, sameFile), err
}

func (r *Reader) remembered() *seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (r *Reader) remember(s *seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = s
}

// Commit is ReadCommit for an active or archived instant; completed ones are kept in memory, up to a bound.
func (r *Reader) Commit(ctx context.Context, p *Properties, inst Instant) (*CommitMetadata, error) {
	if inst.Archived {
		return r.Archive(p).Commit(ctx, inst)
	}
	if inst.State != Completed {
		return ReadCommit(ctx, r.st, r.dir, p, inst)
	}
	key := r.key(p, inst)
	if m, ok := r.cache.get(key).(*CommitMetadata); ok {
		return m, nil
	}
	m, err := ReadCommit(ctx, r.st, r.dir, p, inst)
	if err == nil {
		r.cache.put(key, m)
	}
	return m, err
}

// key names the content of a completed instant's file.
func (r *Reader) key(p *Properties, inst Instant) string {
	return fmt.Sprintf("%s %s %s/%s %d %d", inst.Requested, inst.Action, p.TimelineDir(r.dir), inst.File, inst.Size, inst.ModTime.UnixNano())
}

// Schema is TableSchema without reading a commit twice.
func (r *Reader) Schema(ctx context.Context, p *Properties, tl *Timeline, at string) (string, error) {
	return schemaAt(r.st, p, tl, at, func(inst Instant) (carried, error) {
		key := r.key(p, inst)
		r.mu.Lock()
		c, ok := r.schemas[key]
		r.mu.Unlock()
		if ok {
			return c, nil
		}
		m, err := r.Commit(ctx, p, inst)
		if err != nil {
			return carried{}, err
		}
		c = m.carriedSchema()
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.schemas) > maxSchemas {
			clear(r.schemas)
		}
		r.schemas[key] = c
		return c, nil
	})
}

// maxSchemas bounds how many writes' schemas are remembered. Their texts are shared.
const maxSchemas = 1 << 16

// Archive returns the archived timeline. It shares the reader's memory.
func (r *Reader) Archive(p *Properties) *Archive {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.archive == nil || r.archive.p != p {
		old := r.archive
		r.archive = newArchive(r.st, r.dir, p, r.cache)
		if old != nil && old.p.Layout == p.Layout && old.p.HistoryDir(r.dir) == p.HistoryDir(r.dir) {
			r.archive.adopt(old)
		}
	}
	return r.archive
}

// Stats says what the reader's cache of metadata did so far.
func (r *Reader) Stats() CacheStats { return r.cache.statistics() }

// listTimeline returns the files of the active timeline's folder; those that never count are left out.
func listTimeline(ctx context.Context, st storage.Store, dir string, p *Properties) ([]storage.Info, error) {
	if err := p.CheckTimeline(); err != nil {
		return nil, err
	}
	return listFolder(ctx, st, p.TimelineDir(dir))
}

func listFolder(ctx context.Context, st storage.Store, folder string) ([]storage.Info, error) {
	infos, err := st.List(ctx, folder)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, &storage.Error{Op: "list timeline", Path: folder, Err: err,
			Hint: "check that this is the table's base path and that no upgrade is running"}
	}
	if err != nil {
		return nil, fmt.Errorf("list timeline %s: %w", folder, err)
	}
	return slices.DeleteFunc(infos, func(i storage.Info) bool { return i.IsDir || strings.HasPrefix(path.Base(i.Path), ".") }), nil
}

func sameFile(x, y storage.Info) bool {
	return x.Path == y.Path && x.Size == y.Size && x.ModTime.Equal(y.ModTime)
}

// leadsTo says whether later can be what this look became while it was taken: nothing has gone, and what is new began, or
// completed, after everything that this look has.
func (t *Timeline) leadsTo(later *Timeline) bool {
	newest, old := "", map[instantKey]Instant{}
	for _, i := range t.instants {
		newest = max(newest, i.Requested, i.Completed)
		old[instantKey{i.Requested, i.Action.Completes()}] = i
	}
	found := 0
	for _, i := range later.instants {
		was, ok := old[instantKey{i.Requested, i.Action.Completes()}]
		switch {
		case !ok && i.Requested <= newest:
			return false
		case ok && was.State == Completed && was.File != i.File:
			return false
		case ok && was.State != Completed && i.State == Completed && i.Completed <= newest:
			return false
		}
		if ok {
			found++
		}
	}
	return found == len(old)
}
