package indexer

import (
	"context"
	"errors"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/sink"
)

// Sweep deletes the files that dropped indexes left once no reader can still need them, where no commit will ever do it: the table has
// no index in use any more. Where nothing is to be deleted yet it writes nothing, nor does it on a paused table or while another owner
// has the lease, who sweeps. Kinds as Sync.
func Sweep(ctx context.Context, place mdt.Place, opt CommitterOptions) error {
	st, _, err := mdt.ReadState(ctx, place)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	now := time.Now
	if opt.Sink.Now != nil {
		now = opt.Sink.Now
	}
	if err != nil || st.Paused || !overdue(st, now()) {
		return err
	}
	if opt.Tables == nil {
		opt.Tables = table.NewCache(place.Store)
	}
	// Refuse what cannot be written before anything of the sink is touched.
	if _, err := takeNext(ctx, place, opt.Tables, nil); err != nil {
		return err
	}
	sk, err := OpenCommitter(ctx, place, opt)
	if err != nil {
		return err
	}
	err = sk.Acquire(ctx)
	if lease := (*sink.LeaseError)(nil); errors.As(err, &lease) {
		return nil
	}
	return errors.Join(err, sk.Release(context.WithoutCancel(ctx)))
}

// overdue says whether files are to be deleted now of a state without an index in use.
func overdue(st *mdt.State, now time.Time) bool {
	for _, x := range st.Indexes {
		if _, active := x.Active(); active && !x.Dropped {
			return false
		}
	}
	for _, r := range st.Retired {
		if now.After(r.DeleteAfter) {
			return true
		}
	}
	return len(st.Burned) > 0
}

// KeptUntil says how many files of an index that was dropped are kept for readers that began before, and until when at most; 0 if none are.
func KeptUntil(st *mdt.State, index string) (files int, until time.Time) {
	for _, r := range st.Retired {
		if r.Index != index {
			continue
		}
		if files++; r.DeleteAfter.After(until) {
			until = r.DeleteAfter
		}
	}
	return files, until
}
