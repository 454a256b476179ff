package coverage

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// standing decides whether what an index says may be relied on at all, whatever it covers: the table can carry it, its files are
// there, they are ours, and its column is what it was built on. status, search, prove and wait ask it, so that none of them calls
// fresh or covered what another does not.
type standing struct {
	place mdt.Place
	state *mdt.State
	props *timeline.Properties
	tl    *timeline.Timeline
	known *Known       // nil: nothing
	table *table.Table // what has read commits at this look already; nil: nothing
}

// commit returns the metadata of a commit of the look.
func (g standing) commit(ctx context.Context, w timeline.Instant) (*timeline.CommitMetadata, error) {
	if g.table != nil {
		return g.table.Commit(ctx, w)
	}
	return timeline.ReadCommit(ctx, g.place.Store, table.HoodieDir, g.props, w)
}

// fallen is why an index does not stand.
type fallen struct {
	state    State
	reason   string
	next     string // "": look.wayOut knows
	then     string // a command of ours that ends next
	building bool   // its creation has not ended
	noTable  bool   // there is no metadata table that could hold it
}

// hint is the next step, for who does not know how the user names the table.
func (f *fallen) hint() string {
	if f.then == "" {
		return f.next
	}
	return f.next + "tidemark " + f.then
}

// judge returns why the index does not stand; nil if it does. Of several reasons it is the first in the order of the states.
func (g standing) judge(ctx context.Context, x *mdt.Index) (*fallen, error) {
	if found := g.unsupported(); found != nil {
		return found, nil
	}
	return g.first(ctx, x, g.absent, g.intact, g.closed, g.history)
}

// first returns what the first of the steps finds that finds anything. They are taken at once where the store answers many calls at once.
func (g standing) first(ctx context.Context, x *mdt.Index, steps ...func(context.Context, *mdt.Index) (*fallen, error)) (*fallen, error) {
	if !storage.IsBroad(g.place.Store) {
		for _, step := range steps {
			if found, err := step(ctx, x); found != nil || err != nil {
				return found, err
			}
		}
		return nil, nil
	}
	found, errs := make([]*fallen, len(steps)), make([]error, len(steps))
	calls := make([]func() error, len(steps))
	for i, step := range steps {
		calls[i] = func() error {
			found[i], errs[i] = step(ctx, x)
			return nil // which one counts is decided below
		}
	}
	_ = storage.Together(g.place.Store, calls...)
	for i := range steps {
		if found[i] != nil || errs[i] != nil {
			return found[i], errs[i]
		}
	}
	return nil, nil
}

// unsupported finds a table that this build does not read.
func (g standing) unsupported() *fallen {
	if err := g.props.CheckReadable(); err != nil {
		return &fallen{state: StateUnsupported, reason: unwrapReason(err), next: storage.Hint(err)}
	}
	return nil
}

// absent finds an index that is not there (any more), or not ours.
func (g standing) absent(ctx context.Context, x *mdt.Index) (*fallen, error) {
	mdtThere := sync.OnceValues(func() (bool, error) { return g.metadataTable(ctx) })
	listed := sync.OnceValues(func() ([]storage.Info, error) { return listDir(ctx, g.place.Store, g.place.File(x.Dir)) })
	defs := sync.OnceValues(func() (*mdt.Definitions, error) {
		return mdt.ReadDefinitions(ctx, g.place.Store, mdt.DefinitionsPath(g.props))
	})
	if storage.IsBroad(g.place.Store) { // what they return, errors too, is taken in below
		calls := []func() error{func() error { _, _ = mdtThere(); return nil }, func() error { _, _ = listed(); return nil }}
		if !g.place.IsBeside() {
			calls = append(calls, func() error { _, _ = defs(); return nil })
		}
		_ = storage.Together(g.place.Store, calls...)
	}
	there, err := mdtThere()
	if err != nil {
		return nil, err
	}
	if !there {
		return &fallen{state: StateAbsent, noTable: true,
			reason: g.goneTable()}, nil
	}
	if found, err := g.otherTable(ctx); found != nil || err != nil {
		return found, err
	}
	dir, err := listed()
	if err != nil {
		return nil, err
	}
	if file, missing := missingFile(g.place, g.state.Live(x.Name), dir); missing {
		moved, err := g.movedOn(ctx, x)
		if err != nil {
			return nil, err
		}
		if !moved {
			return &fallen{state: StateAbsent,
				reason: fmt.Sprintf("file %s of the index is gone or has another size: the metadata table was rebuilt, or someone deleted it", file)}, nil
		}
	}
	if _, active := x.Active(); !active {
		return &fallen{state: StateAbsent, building: true, reason: "the index was not finished: its creation is under way or was interrupted"}, nil
	}
	why, err := mdt.HandedOver(g.place, g.props, x.Dir, dir, defs)
	if err != nil || why == "" {
		return nil, err
	}
	return &fallen{state: StateHandedOver,
		reason: "partition " + x.Dir + " " + why + ": an engine that knows vector indexes owns it now"}, nil
}

// goneTable says why there is no metadata table.
func (g standing) goneTable() string {
	if g.place.IsBeside() {
		return "the metadata folder that held the index is gone from the place beside the table"
	}
	return "the metadata table that held the index is gone: a writer with hoodie.metadata.enable=false deletes it"
}

// otherTable finds an index beside a table that is another one now.
func (g standing) otherTable(ctx context.Context) (*fallen, error) {
	err := mdt.SameTable(ctx, g.state.Table, g.props, g.tl, timeline.NewArchive(g.place.Store, table.HoodieDir, g.props))
	if errors.Is(err, storage.ErrRefused) {
		return &fallen{state: StateAbsent, reason: unwrapReason(err), next: storage.Hint(err)}, nil
	}
	return nil, err
}

// movedOn says that a newer state names other files of the index, all of which are there: those of ours were replaced since it
// was read.
func (g standing) movedOn(ctx context.Context, x *mdt.Index) (bool, error) {
	st, _, err := mdt.ReadState(ctx, g.place)
	if gone(err) || err == nil && st.Revision == g.state.Revision {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if now := st.Indexes[x.Name]; now == nil || now.Dropped || now.Dir != x.Dir {
		return false, nil
	}
	dir, err := listDir(ctx, g.place.Store, g.place.File(x.Dir))
	if err != nil {
		return false, err
	}
	_, missing := missingFile(g.place, st.Live(x.Name), dir)
	return !missing, nil
}

// metadataTable says whether the table has a metadata table that an index can be created in.
func (g standing) metadataTable(ctx context.Context) (bool, error) {
	if g.place.CheckWritable(g.props) != nil { // readable, so this is what is missing
		return false, nil
	}
	_, err := g.place.Store.Stat(ctx, g.place.File(".hoodie/hoodie.properties"))
	if gone(err) {
		return false, nil
	}
	return err == nil, err
}

// closed finds an index whose column is no longer what it was built on.
func (g standing) closed(ctx context.Context, x *mdt.Index) (*fallen, error) {
	schema, err := g.schema(ctx)
	if errors.Is(err, storage.ErrCorrupt) && len(setOf(x).Due(g.tl.Writes())) > 0 {
		return nil, nil // a damaged commit that is not covered anyway
	}
	if err != nil {
		return nil, err
	}
	now := "is gone"
	if f, ok := schema.Field(x.Column); ok {
		switch {
		case f.Vector == nil && f.VectorProblem != "":
			now = "cannot be used: " + f.VectorProblem
		case f.Vector == nil:
			now = fmt.Sprintf("is now of type %s", f.Type)
		case f.Vector.Dim != x.Dim || f.Vector.Element != x.Element:
			now = "is now " + f.Vector.String()
		default:
			return nil, nil
		}
	}
	return &fallen{state: StateFailClosed, reason: fmt.Sprintf("vector column %s %s; the index was built on %d × %s", x.Column, now, x.Dim, x.Element)}, nil
}

func (g standing) schema(ctx context.Context) (*avrox.Schema, error) {
	read := func() (string, error) {
		return timeline.TableSchema(ctx, g.place.Store, table.HoodieDir, g.props, g.tl, "")
	}
	if g.table != nil {
		read = func() (string, error) { return g.table.SchemaText(ctx) }
	}
	text, err := read()
	if err != nil {
		return nil, err
	}
	return avrox.ParseSchema(text)
}
