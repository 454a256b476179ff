package main

import (
	"context"
	"errors"
	"time"

	"tidemark/delta"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/sink"
)

// committer hands generation's batches to the sink: the two rooms do not know each other.
type committer struct {
	*sink.Sink
	waiting func(reason string)
}

var _ generation.Committer = committer{}

// newCommitter opens the sink of a place. create lets it make the state object of a table that has none.
func newCommitter(ctx context.Context, place mdt.Place, create bool, waiting func(reason string)) (committer, error) {
	s, err := sink.Open(ctx, place, sink.Config{Schema: delta.SchemaJSON, Create: create, Recheck: indexer.Recheck(place.Store)})
	return committer{s, waiting}, err
}

// Commit makes a batch visible as one deltacommit. Where no id may be taken yet it waits, if waiting can help.
func (c committer) Commit(ctx context.Context, b generation.Batch) (string, error) {
	batch := sink.Batch{Kind: b.Kind, Revision: b.Revision, Apply: b.Apply, NewestData: b.Newest,
		Build: func(id, completion string) ([]sink.FileRecords, error) {
			files, err := b.Build(id, completion)
			out := make([]sink.FileRecords, len(files))
			for i, f := range files {
				out[i] = sink.FileRecords{Index: f.Index, Group: f.Group, Base: f.Base, Records: make([]sink.Record, len(f.Records))}
				for n, r := range f.Records {
					out[i].Records[n] = sink.Record{Key: r.Key, Payload: r.Value}
				}
			}
			return out, err
		}}
	for {
		id, err := c.Sink.Commit(ctx, batch)
		var wait *sink.WaitError
		if !errors.As(err, &wait) || wait.Until.IsZero() {
			return id, err
		}
		c.waiting(wait.Reason)
		t := time.NewTimer(max(time.Until(wait.Until), time.Second/5))
		select {
		case <-ctx.Done():
			t.Stop()
			return "", ctx.Err()
		case <-t.C:
		}
	}
}
