package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// footing is what the indexes of a table rest on beside its timeline, as it was before their status was asked for last: while nothing of
// it has changed, that status still holds. A look without news compares it.
type footing struct {
	files []string // that are asked for
	dirs  []string // that are listed: the partitions of the indexes
	print []string // how they looked
}

// restsOn names what the indexes of a state rest on, in a table of these properties.
func restsOn(place mdt.Place, st *mdt.State, p *timeline.Properties) *footing {
	f := &footing{files: []string{place.StatePath(), table.HoodieDir + "/hoodie.properties", place.File(".hoodie/hoodie.properties")}}
	if !place.IsBeside() { // there nothing but a metafile hands an index over
		f.files = append(f.files, mdt.DefinitionsPath(p))
	}
	for _, name := range slices.Sorted(maps.Keys(st.Indexes)) {
		if x := st.Indexes[name]; !x.Dropped {
			f.dirs = append(f.dirs, place.File(x.Dir))
		}
	}
	return f
}

// look returns how it looks now, for one request a file and directory, all at once.
func (f *footing) look(ctx context.Context, st storage.Store) ([]string, error) {
	parts := make([][]string, len(f.files)+len(f.dirs))
	group, inner := errgroup.WithContext(ctx)
	for i, path := range f.files {
		group.Go(func() error {
			info, err := st.Stat(inner, path)
			if errors.Is(err, storage.ErrNotFound) {
				return nil
			}
			parts[i] = []string{printOf(info)}
			return err
		})
	}
	for i, dir := range f.dirs {
		group.Go(func() error {
			infos, err := st.List(inner, dir)
			if errors.Is(err, storage.ErrNotFound) {
				return nil
			}
			for _, info := range infos {
				parts[len(f.files)+i] = append(parts[len(f.files)+i], printOf(info))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("look at what the index rests on: %w", err)
	}
	var out []string
	for i, p := range parts {
		slices.Sort(p)
		out = append(append(out, fmt.Sprint(i)), p...)
	}
	return out, nil
}

func printOf(i storage.Info) string {
	if i.IsDir {
		return i.Path + "/"
	}
	return fmt.Sprintf("%s %d %d %s", i.Path, i.Size, i.ModTime.UnixNano(), i.Tag)
}

// idle looks whether anything has changed on the timeline, or of what the indexes rest on, since the last whole look.
func (t *followed) idle(ctx context.Context) (moved bool, err error) {
	var print []string
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if moved, err = t.tables.Reader().Poll(inner); err != nil {
			return fmt.Errorf("look for new commits: %w", err)
		}
		return nil
	})
	group.Go(func() (err error) {
		print, err = t.footing.look(inner, t.place.Store)
		return err
	})
	err = group.Wait()
	return moved || !slices.Equal(print, t.footing.print), err
}

// foot notes what the indexes rest on, before their status is asked for.
func (t *followed) foot(ctx context.Context, f *footing) error {
	print, err := f.look(ctx, t.place.Store)
	if err != nil {
		return err
	}
	f.print, t.footing = print, f
	return nil
}
