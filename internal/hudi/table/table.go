package table

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// HoodieDir is the folder of a data table's properties and timeline, relative to the table's base path.
const HoodieDir = ".hoodie"

// looks bounds how often a look at the timeline is taken again while writers commit.
const looks = 5

// Table is one consistent look at a data table. What happens after Open is not seen. It is safe for concurrent use.
type Table struct {
	Store    storage.Store
	Props    *timeline.Properties
	Timeline *timeline.Timeline
	// Schema is the table's schema at the newest write, without meta columns; nil if no commit, property or file says it.
	// Where the newest writes' metadata is damaged it is the schema before them.
	Schema *avrox.Schema

	stats stats
	cache *Cache
	from  string // completion time from which on the Timeline has every data write

	own     sync.Once
	footers *basefile.Footers // of this look, where the cache has none for all
}

// Open is Cache.Open for one look.
func Open(ctx context.Context, st storage.Store) (*Table, error) { return NewCache(st).Open(ctx) }

// Open reads properties, timeline and schema as one look (timeline.Reader.Open); when an instant vanishes while the schema is
// read, the look is taken again. A path that is no table is storage.ErrNotFound with a hint. Tables whose rows cannot be
// read (version 6 and others, see Properties.CheckReadable) open all the same, so that they can be described; reading rows then
// refuses.
func (c *Cache) Open(ctx context.Context) (*Table, error) {
	for range looks {
		p, tl, err := c.look(ctx)
		if err != nil {
			return nil, err
		}
		t := &Table{Store: c.st, Props: p, Timeline: tl, cache: c, from: tl.Earliest()}
		text, err := c.reader.Schema(ctx, p, tl, "")
		if errors.Is(err, storage.ErrCorrupt) {
			// A damaged commit: snapshots that hold it cannot be read, those before it have the schema before it.
			text, err = c.schemaBefore(ctx, p, tl)
		}
		if err == nil {
			if t.Schema, err = avrox.ParseSchema(text); err != nil {
				return nil, fmt.Errorf("read table schema: %w", err)
			}
			return t, nil
		}
		if errors.Is(err, storage.ErrNotFound) { // no schema at all, or an instant that is gone
			moved, pollErr := c.reader.Poll(ctx)
			if pollErr != nil {
				return nil, pollErr
			}
			if moved {
				continue
			}
		}
		if p.CheckReadable() == nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
		return t, nil
	}
	return nil, &storage.Error{Op: "open table", Path: c.st.URL(), Hint: "writers commit faster than the timeline can be read: try again",
		Err: fmt.Errorf("timeline changed under %d looks: %w", looks, storage.ErrStale)}
}

// schemaBefore returns the schema of the newest snapshot that a damaged commit does not hide.
func (c *Cache) schemaBefore(ctx context.Context, p *timeline.Properties, tl *timeline.Timeline) (string, error) {
	writes := tl.Writes()
	for i := len(writes) - 1; i > 0; i-- {
		text, err := c.reader.Schema(ctx, p, tl, writes[i-1].Completed)
		if !errors.Is(err, storage.ErrCorrupt) {
			return text, err
		}
	}
	return c.reader.Schema(ctx, p, tl, "")
}

// Vector returns the VECTOR column of that name at the newest write. A missing column, one nested in another, and one of any
// other type are storage.ErrUnsupported with a hint.
func (t *Table) Vector(column string) (avrox.Vector, error) {
	refuse := func(hint, format string, args ...any) error {
		return &storage.Error{Op: "use column", Path: column, Hint: hint, Err: fmt.Errorf(format+": %w", append(args, storage.ErrUnsupported)...)}
	}
	if t.Schema == nil {
		return avrox.Vector{}, refuse("write to the table once, so that a commit carries its schema", "the table's schema is not known")
	}
	f, ok := t.Schema.Field(column)
	if !ok {
		return avrox.Vector{}, t.missingColumn(column, refuse)
	}
	switch {
	case f.Vector != nil:
		return *f.Vector, nil
	case f.VectorProblem != "":
		return avrox.Vector{}, refuse("declare the column as VECTOR(dimension) or VECTOR(dimension, DOUBLE|INT8)", "%s", f.VectorProblem)
	case f.Type == avrox.Array:
		return avrox.Vector{}, refuse("declare it as VECTOR(dimension) with a Hudi 1.2 or newer writer: the dimension of a plain array is not fixed",
			"a plain array of %s, not a VECTOR", f.Items)
	case f.Type == avrox.Object || f.Type == avrox.Map:
		return avrox.Vector{}, refuse("name a top-level VECTOR column", "a %s, not a VECTOR", f.Type)
	}
	return avrox.Vector{}, refuse(t.vectorHint(), "of type %s, not a VECTOR", f.Type)
}

func (t *Table) missingColumn(column string, refuse func(string, string, ...any) error) error {
	for i, r := range column {
		if r == '.' {
			if _, ok := t.Schema.Field(column[:i]); ok {
				return refuse("only top-level VECTOR columns can be indexed", "nested in %s", column[:i])
			}
		}
	}
	return refuse(t.vectorHint(), "the table has no such column")
}

func (t *Table) vectorHint() string {
	vectors := t.Schema.Vectors()
	if len(vectors) == 0 {
		return "the table has no VECTOR column"
	}
	hint := "VECTOR columns of this table:"
	for i, v := range vectors {
		sep := ", "
		if i == 0 {
			sep = " "
		}
		hint += sep + v.Column
	}
	return hint
}

// Group identifies a file group: file ids repeat across partitions, and they have many forms and are never parsed
// (design, decision 18).
type Group struct {
	Partition, FileID string
}

// String returns partition and file id for people.
func (g Group) String() string {
	if g.Partition == "" {
		return g.FileID
	}
	return g.Partition + "/" + g.FileID
}

func (g Group) compare(o Group) int {
	switch {
	case g.Partition != o.Partition:
		if g.Partition < o.Partition {
			return -1
		}
		return 1
	case g.FileID < o.FileID:
		return -1
	case g.FileID > o.FileID:
		return 1
	}
	return 0
}

// filePath joins a partition and a file name.
func filePath(partition, name string) string {
	if partition == "" {
		return name
	}
	return partition + "/" + name
}
