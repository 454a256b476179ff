package indexer

import (
	"context"
	"errors"
	"fmt"

	"tidemark/delta"
	"tidemark/delta/batch"
	"tidemark/diffing"
	"tidemark/internal/vector/rabitq"
	"tidemark/sink"
)

// Memory bounds what a batch holds; what is beyond it goes to temporary files. Neither changes what is written.
type Memory struct {
	// Changes bounds the bytes of row changes and records of a batch, all indexes together. Defaults to batch.DefaultMemory.
	Changes int64
	// Window bounds the bytes of rows that wait for their counterpart in a comparison. Defaults to 64 MiB.
	Window int64
	// TempDir is where temporary files are made. Defaults to the system's folder for temporary files (TMPDIR).
	TempDir string
}

// taken gathers the changes of a batch as they are found, for each index of a cohort. It is a diffing.Changes.
type taken struct {
	ctx     context.Context // of the comparison at hand
	instant string          // requested time of its last instant
	memory  Memory
	indexes []opened
	plan    bool
	batches []*batch.Batch // in the order of the indexes
}

var _ diffing.Changes = (*taken)(nil)

// take returns an empty one, to be closed. plan says that nothing will be written: codes are not worked out then.
func (m Memory) take(indexes []opened, plan bool) *taken {
	if m.Changes <= 0 {
		m.Changes = batch.DefaultMemory
	}
	t := &taken{memory: m, indexes: indexes, plan: plan}
	t.open()
	return t
}

func (t *taken) open() {
	t.batches = nil
	for _, o := range t.indexes {
		b := o.gen.Builder()
		if t.plan {
			b.Router = uncoded{b.Router}
		}
		t.batches = append(t.batches, batch.New(batch.Config{Builder: b, Element: o.gen.Vector.Element.Kernel(), Dim: o.gen.Dim,
			Memory: max(1, t.memory.Changes/int64(len(t.indexes))), TempDir: t.memory.TempDir}))
	}
}

// restart forgets everything.
func (t *taken) restart() error {
	err := t.close()
	t.open()
	return err
}

// uncoded is a router that leaves codes out.
type uncoded struct{ delta.Router }

func (uncoded) Encode([]float32, int) rabitq.Code { return rabitq.Code{} }

// begin begins the next unit of instants and makes a request hand its changes over.
func (t *taken) begin(ctx context.Context, req *diffing.Request) {
	t.ctx, t.instant = ctx, req.Instants[len(req.Instants)-1].Requested
	for _, b := range t.batches {
		b.Begin()
	}
	req.Changes, req.Window, req.TempDir = t, t.memory.Window, t.memory.TempDir
}

// Add is a method of diffing.Changes.
func (t *taken) Add(target int, c diffing.Change) error {
	return t.batches[target].Add(t.ctx, c.Class, c.Key, c.Old, c.New, t.instant)
}

// Reset is a method of diffing.Changes.
func (t *taken) Reset() {
	for _, b := range t.batches {
		b.Reset()
	}
}

// size estimates what the changes come to as records.
func (t *taken) size() (n int64) {
	for _, b := range t.batches {
		n += b.Size()
	}
	return n
}

func (t *taken) close() error {
	var errs []error
	for _, b := range t.batches {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// fileRecords returns the records of a finished batch as the sink takes them, with more among them. They are walked once.
func fileRecords(index string, b *batch.Batch, more []delta.KV) []sink.FileRecords {
	var out []sink.FileRecords
	for _, f := range b.Files(more) {
		out = append(out, sink.FileRecords{Index: index, Group: f.Group, Stream: func(yield func(sink.Record, error) bool) {
			for r, err := range f.Records {
				if !yield(sink.Record{Key: r.Key, Payload: r.Value}, err) || err != nil {
					return
				}
			}
		}})
	}
	return out
}

// apply changes postings by record key to what they are with the changes of a batch so far.
func apply(ctx context.Context, b *batch.Batch, postings map[string]diffing.Posting) error {
	dec, err := delta.NewDecoder(delta.SchemaJSON)
	if err != nil {
		return err
	}
	return b.Net(ctx, func(key []byte, n *delta.Net) error {
		if n.New.Cluster < 0 {
			delete(postings, string(key))
			return nil
		}
		r, err := dec.Decode(n.Value)
		if err != nil {
			return fmt.Errorf("read posting of %q: %w", key, err)
		}
		if p, ok := r.(*delta.PostingDelta); ok {
			postings[string(key)] = diffing.Posting{Cluster: n.New.Cluster, Locator: p.Locator()}
		}
		return nil
	})
}
