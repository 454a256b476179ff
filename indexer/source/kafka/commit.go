package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// committing bounds one commit of offsets.
const committing = 5 * time.Second

// mark remembers that a partition's messages up to r are done, to be committed with the next tick.
func (s *Source) mark(r *kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marked[place{r.Topic, r.Partition}] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
}

// commitLoop commits what is marked now and then until ctx ends. While the group shares its partitions out anew nobody commits: the broker would
// refuse it.
func (s *Source) commitLoop(ctx context.Context, cl *kgo.Client) {
	tick := time.NewTicker(s.cfg.CommitInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		settled := s.settled
		s.mu.Unlock()
		if settled {
			s.commit(ctx, cl)
		}
	}
}

// commit commits what is marked. What the broker does not take stays marked.
func (s *Source) commit(ctx context.Context, cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, committing)
	defer cancel()
	s.mu.Lock()
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for at, o := range s.marked {
		if offsets[at.topic] == nil {
			offsets[at.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[at.topic][at.partition] = o
	}
	s.mu.Unlock()
	if len(offsets) == 0 {
		return
	}
	cl.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				at := place{t.Topic, p.Partition}
				if refused := kerr.ErrorForCode(p.ErrorCode); refused != nil {
					err = errors.Join(err, refused)
				} else if err == nil && s.marked[at] == offsets[t.Topic][p.Partition] {
					delete(s.marked, at)
				}
			}
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			s.tell.say("commit", "offsets are not committed; it is tried again, and after a restart some messages are read again", "error", err)
		}
	})
}
