package indexer

import (
	"context"
	"errors"
	"time"

	"tidemark/delta"
	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/sink"
)

// Committer hands generation's batches to the sink: the two rooms do not know each other. It is a sink with the
// schema and the checks that every commit of this program uses.
type Committer struct {
	*sink.Sink
	waiting func(reason string)
	tables  *table.Cache
	memo    *memo // of a sync
}

var _ generation.Committer = Committer{}

// CommitterOptions are what is not required of a Committer.
type CommitterOptions struct {
	// Sink configures the sink below; its Schema, Recheck and Data are set here. Create lets Acquire make the state
	// object of a table that has none.
	Sink sink.Config
	// Waiting is told before a commit waits for a time to become free. Defaults to nothing.
	Waiting func(reason string)
	// Tables is what this process knows of the table already. Defaults to nothing.
	Tables *table.Cache
}

// OpenCommitter returns a committer for a place. It reads nothing and starts nothing.
func OpenCommitter(ctx context.Context, place mdt.Place, opt CommitterOptions) (Committer, error) {
	if opt.Waiting == nil {
		opt.Waiting = func(string) {}
	}
	if opt.Tables == nil {
		opt.Tables = table.NewCache(place.Store)
	}
	m := &memo{}
	opt.Sink.Schema, opt.Sink.Recheck, opt.Sink.Data = delta.SchemaJSON, m.judged.recheck(opt.Tables), opt.Tables.Reader()
	s, err := sink.Open(ctx, place, opt.Sink)
	return Committer{s, opt.Waiting, opt.Tables, m}, err
}

// lookAgain is the time between two looks at a lease that is watched.
const lookAgain = 5 * time.Second

// Acquire is the sink's. A lease that says it lasts longer than any can is watched for as long as its owner would need to renew it.
func (c Committer) Acquire(ctx context.Context) error {
	for until := time.Now().Add(c.WatchLease()); ; {
		err := c.Sink.Acquire(ctx)
		var held *sink.LeaseError
		if !errors.As(err, &held) || !held.Ahead || time.Now().After(until) {
			return err
		}
		c.waiting(held.Error() + "; it is taken over if nobody renews it now")
		if err := sleep(ctx, lookAgain); err != nil {
			return err
		}
	}
}

// Commit makes a batch visible as one deltacommit. Where no id may be taken yet it waits, if waiting can help.
func (c Committer) Commit(ctx context.Context, b generation.Batch) (string, error) {
	return c.commit(ctx, sink.Batch{Kind: b.Kind, Revision: b.Revision, Apply: b.Apply, NewestData: b.Newest,
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
		}})
}

// minWait keeps a loop of waits from spinning where the store's clock is behind ours.
const minWait = 200 * time.Millisecond

// commit is the sink's Commit that waits while no id may be taken (docs/format/commit.md, Ids without a clock).
func (c Committer) commit(ctx context.Context, b sink.Batch) (string, error) {
	for {
		id, err := c.Sink.Commit(ctx, b)
		var wait *sink.WaitError
		if !errors.As(err, &wait) || wait.Until.IsZero() {
			return id, err
		}
		c.waiting(wait.Reason)
		b.Seen = nil // it is older after that
		if err := sleep(ctx, max(time.Until(wait.Until), minWait)); err != nil {
			return "", err
		}
	}
}
