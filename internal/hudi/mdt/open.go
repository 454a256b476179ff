package mdt

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"

	"tidemark/internal/hudi/hfile"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Names below a table's base path.
const (
	dataDir        = ".hoodie"
	rootDir        = ".hoodie/metadata"
	filesPartition = "files"
	recordIndex    = "record_index"
	initPrefix     = "00000000000000" // ids of a partition's first commits
)

// MDT is one look at a table's metadata table: its properties and one snapshot of its active timeline. It is safe for
// concurrent use. Open it anew to see newer commits.
type MDT struct {
	Store    storage.Store
	Props    *timeline.Properties
	Timeline *timeline.Timeline

	data      *timeline.Properties // of the data table
	blocks    *hfile.Blocks        // of the record index, kept between looks; nil: none are
	noRecords error                // why the record index cannot be used; nil: it can

	mu      sync.Mutex
	listed  map[string]*partition // guarded by mu
	files   map[string]*fileData  // guarded by mu: opened files by path
	held    int64                 // guarded by mu: bytes of files kept whole
	records keptLayers            // guarded by mu: of files only
	dropped int                   // guarded by mu: how often files were dropped
	skipped map[Skipped]bool      // guarded by mu
}

// Skipped is something that was left out of an answer by a rule of the format, with the reason.
type Skipped struct{ Path, Reason string }

// Open reads properties and active timeline of the metadata table below the root of st, and lists the record index if the
// table has one. A table without a metadata table is storage.ErrNotFound.
func Open(ctx context.Context, st storage.Store) (*MDT, error) {
	data, err := timeline.LoadProperties(ctx, st, dataDir)
	if err != nil {
		return nil, fmt.Errorf("open metadata table: %w", err)
	}
	return OpenWith(ctx, st, data, NewReader(st))
}

// NewReader returns a reader of the metadata table's timeline, for OpenWith. It reads nothing.
func NewReader(st storage.Store) *timeline.Reader {
	return timeline.NewReader(st, path.Join(rootDir, dataDir))
}

// OpenWith is Open with the data table's properties as they were just read, and with a reader that is kept from look to look.
func OpenWith(ctx context.Context, st storage.Store, data *timeline.Properties, reader *timeline.Reader) (*MDT, error) {
	p, tl, err := reader.Open(ctx)
	if err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			return nil, &storage.Error{Op: "open metadata table", Path: rootDir, Err: err,
				Hint: "the table has no metadata table: write to it once with hoodie.metadata.enable=true"}
		}
		return nil, fmt.Errorf("open metadata table: %w", err)
	}
	return OpenAt(ctx, st, data, p, tl)
}

// OpenAt is OpenWith at a look of the reader that was just taken.
func OpenAt(ctx context.Context, st storage.Store, data, p *timeline.Properties, tl *timeline.Timeline) (*MDT, error) {
	m := &MDT{
		Store: st, Props: p, Timeline: tl, data: data,
		listed: map[string]*partition{}, files: map[string]*fileData{}, skipped: map[Skipped]bool{},
	}
	return m, m.lookForRecords(ctx)
}

// Keep lets look-ups in the record index keep blocks of its base files, for all looks that share b. Call it before the first one.
func (m *MDT) Keep(b *hfile.Blocks) { m.blocks = b }

// lookForRecords finds out whether the record index can be used. Only what the store itself could not answer is an error.
func (m *MDT) lookForRecords(ctx context.Context) error {
	if !m.ListsRecordIndex() {
		m.noRecords = &storage.Error{Op: "look up records", Path: recordIndex, Err: fmt.Errorf("no record index: %w", storage.ErrNotFound),
			Hint: "enable hoodie.metadata.global.record.level.index.enable in the writer and commit once"}
		return nil
	}
	_, err := m.partition(ctx, recordIndex)
	for _, kind := range []error{storage.ErrNotFound, storage.ErrCorrupt, storage.ErrUnsupported} {
		if errors.Is(err, kind) {
			m.noRecords = &storage.Error{Op: "look up records", Path: recordIndex, Hint: storage.Hint(err),
				Err: fmt.Errorf("the table's properties list a record index, but it cannot be used: %w", err)}
			return nil
		}
	}
	return err
}

// HasRecordIndex says whether the table has a record index that can be used: its properties list it as ready, and the files of
// all its file groups are there.
func (m *MDT) HasRecordIndex() bool { return m.noRecords == nil }

// ListsRecordIndex says whether the table's properties list a record index, be it usable or not.
func (m *MDT) ListsRecordIndex() bool {
	return slices.Contains(m.data.MetadataPartitions, recordIndex)
}

// NoRecordIndex says why there is no record index that can be used, with a hint; nil if there is one.
func (m *MDT) NoRecordIndex() error { return m.noRecords }

// Skipped returns what reads through m have left out so far, sorted: log blocks of instants that are not valid, and bytes
// behind the last block of a log file.
func (m *MDT) Skipped() []Skipped {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Skipped
	for s := range m.skipped {
		out = append(out, s)
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Path < out[j].Path || out[i].Path == out[j].Path && out[i].Reason < out[j].Reason
	})
	return out
}

func (m *MDT) skip(path, reason string) {
	m.mu.Lock()
	m.skipped[Skipped{path, reason}] = true
	m.mu.Unlock()
}

// ValidInstants returns which log blocks of the metadata table count, by their INSTANT_TIME (docs/format/mdt.md, "Valid
// instants"): completed on the MDT's timeline and not pending there, and in the set that Hudi's readers accept. data
// is the data table's active timeline. Load it before opening m: a data commit completes after its MDT deltacommit, so m then has
// everything that data shows; a commit that ends between the two is seen too, and only a second look at the timeline tells.
//
// DECISION: the ids of rolled-back data instants, which Hudi accepts too, are left out on table version 6: their records
// are taken back by later ones, so the answer is the same. On later versions they are accepted as any completed
// MDT deltacommit is.
func (m *MDT) ValidInstants(data *timeline.Timeline) func(instant string) bool {
	pending := map[string]bool{}
	for _, i := range data.Pending() {
		pending[i.Requested] = true
	}
	return func(id string) bool {
		if _, ok := m.Timeline.IsCompleted(id); !ok {
			return false
		}
		if strings.HasPrefix(id, initPrefix) {
			return true
		}
		if _, ok := data.CompletionOf(id); ok {
			return true
		}
		if _, ok := m.Timeline.CompletionOf(id); !ok || pending[id] {
			return false
		}
		return m.Props.Version >= 8 || suffixed(id)
	}
}

// suffixed says whether an MDT instant of table version 6 carries a three-digit suffix of an operation of its own.
func suffixed(id string) bool {
	if len(id) != 20 {
		return false
	}
	s := id[17:]
	return s >= "001" && s <= "006" || s >= "010"
}
