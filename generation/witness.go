package generation

import (
	"context"
	"encoding/hex"

	"tidemark/internal/hudi/mdt"
)

// witness notes how the timeline shows the commits of the baseline: a file that differs later is another one.
func (b *bootstrap) witness(ctx context.Context) error {
	x := &mdt.Index{Baseline: b.plan.snapshot.baseline}
	x.Witness(b.t.Timeline.Writes(), nil)
	for requested, s := range x.Seen {
		inst, ok := b.t.Timeline.Find(requested)
		if !ok || inst.Completed != s.Completed {
			continue
		}
		m, err := b.t.Commit(ctx, inst)
		if err != nil {
			return gone(ctx, b.t, err)
		}
		s.Digest = hex.EncodeToString(m.Digest[:])
		x.Seen[requested] = s
	}
	b.seen = x.Seen
	b.archive = mdt.ReachOf(ctx, b.t.Archive(), b.t.Timeline)
	return nil
}
