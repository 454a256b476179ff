package coverage

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Bounds of what files looks at: commits that are read, newest first, and files that are asked for.
const (
	maxCommitsLooked = 16
	maxFilesLooked   = 128
	looksAtOnce      = 32
)

// wrote is a file of the newest snapshot, as the commit that wrote it says.
type wrote struct {
	group  table.Group
	path   string // relative to the table's base path
	commit string // requested time
	size   int64  // 0 if the commit does not say
	log    bool
}

// files finds that a file of the newest snapshot is gone or has another size, among those that the newest commits wrote. What older
// ones wrote is for verify.
func (g standing) files(ctx context.Context, x *mdt.Index) (*fallen, error) {
	if g.known.has(x.Name, g.state.Revision, g.tl) {
		return nil, nil
	}
	want, found, err := g.newest(ctx, x)
	if found != nil || err != nil {
		return found, err
	}
	lost := make([]bool, len(want))
	eg, inner := errgroup.WithContext(ctx)
	eg.SetLimit(looksAtOnce)
	for i, w := range want {
		eg.Go(func() error {
			info, err := g.place.Store.Stat(inner, w.path)
			if err != nil && !gone(err) {
				return fmt.Errorf("look at file %s: %w", w.path, err)
			}
			lost[i] = err != nil || w.size > 0 && (info.Size < w.size || info.Size != w.size && !w.log)
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, err
	}
	for i, w := range want {
		if !lost[i] {
			continue
		}
		why, err := g.confirm(ctx, w)
		if err != nil {
			return nil, err
		}
		if why != "" {
			return &fallen{state: StateBlocked, reason: fmt.Sprintf("the newest snapshot has lost a file that commit %s wrote: %s", w.commit, why),
				next: "restore the file from a copy, or the table to a savepoint with Hudi's tools"}, nil
		}
	}
	g.known.found(x.Name, g.state.Revision, g.tl)
	return nil, nil
}

// Known is what a process has found to be there within the last minutes, so that it is not looked for at every poll. The zero value is empty; it is safe for
// concurrent use.
type Known struct {
	mu    sync.Mutex
	files map[string]sound // by index
}

// sound is a look at which no file was lost.
type sound struct {
	revision int64 // of the state
	tl       *timeline.Timeline
	at       time.Time
}

// soundFor is how long a look at files counts though neither the state nor the timeline has changed since.
const soundFor = 5 * time.Minute

func (k *Known) has(index string, revision int64, tl *timeline.Timeline) bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.files[index]
	return was.tl != nil && was.revision == revision && was.tl.Equal(tl) && time.Since(was.at) < soundFor
}

func (k *Known) found(index string, revision int64, tl *timeline.Timeline) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.files == nil {
		k.files = map[string]sound{}
	}
	k.files[index] = sound{revision, tl, time.Now()}
}

// newest reads the newest commits and returns the files that they wrote, as far as later ones have not replaced them; or that one of
// them which the index holds is not what it was.
func (g standing) newest(ctx context.Context, x *mdt.Index) ([]wrote, *fallen, error) {
	writes, set := slices.Clone(g.tl.Writes()), setOf(x)
	slices.Reverse(writes)
	metas := make([]*timeline.CommitMetadata, min(len(writes), maxCommitsLooked))
	damage := make([]error, len(metas))
	eg, inner := errgroup.WithContext(ctx)
	eg.SetLimit(looksAtOnce)
	for i := range metas {
		eg.Go(func() error {
			m, err := g.commit(inner, writes[i])
			if errors.Is(err, storage.ErrCorrupt) {
				damage[i], err = err, nil
			}
			metas[i] = m
			return err
		})
	}
	if err := eg.Wait(); gone(err) {
		return nil, nil, nil // the table has moved on: the next look judges
	} else if err != nil {
		return nil, nil, err
	}
	for i, m := range metas {
		w := writes[i]
		if !set.Has(w) {
			continue // what is not covered is told of as such
		}
		if damage[i] != nil {
			return nil, damaged(w, unwrapped(damage[i])), nil
		}
		was, now := x.Seen[w.Requested], hex.EncodeToString(m.Digest[:])
		if was.Completed == w.Completed && was.Digest != "" && was.Digest != now {
			return nil, changed(w, fmt.Sprintf("has other content: its sha-256 was %.12s… and is %.12s…", was.Digest, now)), nil
		}
	}
	base, replaced := map[table.Group]string{}, map[table.Group]bool{} // newest base file's instant
	for i, m := range metas {
		if m == nil {
			continue
		}
		for partition, ids := range m.Replaced {
			for _, id := range ids {
				replaced[table.Group{Partition: partition, FileID: id}] = true
			}
		}
		for _, s := range m.Stats {
			if at := (table.Group{Partition: s.Partition, FileID: s.FileID}); !isLog(s.Path) {
				base[at] = max(base[at], writes[i].Requested)
			}
		}
	}
	var out []wrote
	for i, m := range metas {
		if m == nil {
			continue
		}
		for _, s := range m.Stats {
			w := wrote{group: table.Group{Partition: s.Partition, FileID: s.FileID}, path: strings.TrimPrefix(s.Path, "/"), commit: writes[i].Requested, size: s.FileSize, log: isLog(s.Path)}
			older := !w.log && base[w.group] != writes[i].Requested || w.log && base[w.group] > writes[i].Completed
			if w.path == "" || older || replaced[w.group] || storage.CheckPath("look at file", w.path) != nil {
				continue
			}
			if out = append(out, w); len(out) == maxFilesLooked {
				return out, nil, nil
			}
		}
	}
	return out, nil, nil
}

func isLog(file string) bool { return strings.HasPrefix(path.Base(file), ".") }

// confirm says what is wrong with a file that seems lost, by the rules of slices on the table as it is now; "" if no newest slice needs it.
func (g standing) confirm(ctx context.Context, w wrote) (string, error) {
	t, err := table.Open(ctx, g.place.Store)
	if err != nil {
		return "", err
	}
	files, err := t.Files(ctx, w.group.Partition)
	if err != nil {
		return "", err
	}
	s, ok, err := files.Slice(w.group, table.Cut{})
	if errors.Is(err, table.ErrGone) || errors.Is(err, storage.ErrCorrupt) {
		return unwrapped(err), nil
	}
	if err != nil || !ok {
		return "", err
	}
	if s.Base != nil && s.Base.Path == w.path && w.size > 0 && s.Base.Size != w.size {
		return fmt.Sprintf("%s has %d bytes, its commit wrote %d", w.path, s.Base.Size, w.size), nil
	}
	return "", nil
}

// unwrapped is an error's text with the file first, without what was done when it was met.
func unwrapped(err error) string {
	var e *storage.Error
	if errors.As(err, &e) {
		return fmt.Sprintf("%s: %v", e.Path, e.Err)
	}
	return err.Error()
}
