package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/indexer/source"
	"tidemark/internal/storage"
)

// Source reads the messages of one topic as one member of a consumer group.
type Source struct {
	cfg  Config
	opts []kgo.Opt
	link link // is the broker there
	tell teller

	mu     sync.Mutex
	held   map[place]*held // partitions that are ours
	seen   map[string]place
	counts Counts
}

var _ source.Source = (*Source)(nil)

// New checks the settings and reads the files that they name; it connects to nothing. A setting that is wrong is refused together with all others
// that are.
func New(cfg Config) (*Source, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	s := &Source{cfg: cfg, opts: opts, held: map[place]*held{}, seen: map[string]place{}}
	s.counts.SetAside = map[string]int64{}
	s.link.log, s.tell.log = cfg.Log, cfg.Log
	return s, nil
}

// Name is "kafka".
func (s *Source) Name() string { return "kafka" }

// Run reads the topic until ctx ends, and returns nil then. A broker that cannot be reached is tried again and again: Status says why. It is an
// error to run one Source twice at a time.
func (s *Source) Run(ctx context.Context, deliver func(source.Hint)) error {
	cl, err := kgo.NewClient(append(slices.Clone(s.opts),
		kgo.WithHooks(&s.link),
		kgo.OnPartitionsAssigned(func(ctx context.Context, cl *kgo.Client, got map[string][]int32) { s.assigned(ctx, cl, got) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, gone map[string][]int32) { s.revoked(ctx, cl, gone, true) }),
		kgo.OnPartitionsLost(func(ctx context.Context, cl *kgo.Client, gone map[string][]int32) { s.revoked(ctx, cl, gone, false) }),
	)...)
	if err != nil {
		return &storage.Error{Op: "start", Path: "source kafka", Err: err, Hint: "correct the settings of the source"}
	}
	// Closing leaves the group, which gives up the partitions: see revoked.
	defer cl.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fetches := cl.PollRecords(ctx, 500)
		fetches.EachError(func(topic string, partition int32, err error) { s.failed(cl, topic, partition, err) })
		now := time.Now()
		fetches.EachRecord(func(r *kgo.Record) { s.take(r, now, deliver) })
		cl.AllowRebalance()
	}
	return nil
}

// take delivers what a message tells of, or sets it aside.
func (s *Source) take(r *kgo.Record, now time.Time, deliver func(source.Hint)) {
	s.link.up()
	at := place{r.Topic, r.Partition}
	c, why := parse(r.Value, s.cfg.MaxMessage)
	s.mu.Lock()
	h := s.held[at]
	s.counts.Messages++
	if why != "" {
		s.counts.SetAside[why]++
	} else if c.TableName != "" {
		s.place(c.TableName, at)
	}
	s.mu.Unlock()
	if h == nil { // not ours any more: the next owner reads it again
		return
	}
	done, letGo := h.add(r, s.cfg.MaxOutstanding)
	if letGo > 0 {
		s.mu.Lock()
		s.counts.LetGo += int64(letGo)
		s.mu.Unlock()
		s.tell.say("let_go", "too many messages wait for the end of their pass; the oldest are let go, polling finds their commits",
			"partition", r.Partition, "bound", s.cfg.MaxOutstanding)
	}
	if why != "" {
		s.tell.say(why, "message set aside: it is no commit callback of Hudi", "reason", why, "topic", r.Topic, "partition", r.Partition,
			"offset", r.Offset, "bytes", len(r.Value), "sample", sample(r.Value))
		done()
		return
	}
	deliver(source.Hint{Table: c.BasePath, Instant: c.CommitTime, Trace: traceOf(r.Headers), Received: now, Done: func(err error) {
		// A pass that was stopped half-way says nothing: the message is read again by who owns the partition next.
		if !errors.Is(err, context.Canceled) {
			done()
		}
	}})
}

// maxSeen bounds how many tables' partitions are remembered.
const maxSeen = 10_000

// place remembers where a table's messages come. The lock is held.
func (s *Source) place(table string, at place) {
	if _, known := s.seen[table]; known || len(s.seen) < maxSeen {
		s.seen[table] = at
	}
}

// failed deals with a fetch that brought an error instead of messages. None of them ends the loop.
func (s *Source) failed(cl *kgo.Client, topic string, partition int32, err error) {
	var large *kgo.ErrDecompressTooLarge
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
	case errors.As(err, &large):
		s.mu.Lock()
		s.counts.SetAside[ReasonBatch]++
		s.mu.Unlock()
		s.tell.say(ReasonBatch, "batch of messages set aside: too large when unpacked", "topic", topic, "partition", partition, "offset", large.Offset)
		cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {partition: {Epoch: large.Epoch, Offset: large.NextOffset}}})
	default:
		if topic != "" && partition >= 0 {
			err = fmt.Errorf("partition %d: %w", partition, err)
		}
		s.link.down(fmt.Errorf("read topic %s: %w", s.cfg.Topic, err))
	}
}

// assigned takes partitions.
func (s *Source) assigned(ctx context.Context, cl *kgo.Client, got map[string][]int32) {
	s.mu.Lock()
	n := 0
	for topic, partitions := range got {
		for _, p := range partitions {
			s.held[place{topic, p}] = &held{commit: func(r *kgo.Record) { cl.MarkCommitRecords(r) }}
			n++
		}
	}
	s.counts.Rebalances++
	s.mu.Unlock()
	s.link.up()
	if n > 0 {
		s.cfg.Log.Info("kafka: partitions taken", "group", s.cfg.Group, "partitions", flat(got))
	}
	s.handOver(ctx)
}

// revoked gives partitions up: first what is done is committed, then the tables are given up, then they are another's. commit is false where they
// are another's already.
func (s *Source) revoked(ctx context.Context, cl *kgo.Client, gone map[string][]int32, commit bool) {
	var mine []*held
	s.mu.Lock()
	for topic, partitions := range gone {
		for _, p := range partitions {
			if h := s.held[place{topic, p}]; h != nil {
				mine = append(mine, h)
				delete(s.held, place{topic, p})
			}
		}
	}
	s.mu.Unlock()
	if len(mine) > 0 {
		s.handOver(ctx) // passes that end meanwhile still count
	}
	n := 0
	for _, h := range mine {
		n += h.giveUp()
	}
	s.mu.Lock()
	s.counts.GivenUp += int64(n)
	s.mu.Unlock()
	if commit {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := cl.CommitMarkedOffsets(ctx); err != nil {
			s.tell.say("commit", "offsets are not committed: the next owner reads some messages again", "error", err)
		}
	}
	if len(mine) > 0 {
		s.cfg.Log.Info("kafka: partitions given up", "group", s.cfg.Group, "partitions", flat(gone), "hints_given_up", n, "lost", !commit)
	}
}

// handOver lets the daemon act on what is owned now.
func (s *Source) handOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.HandOver)
	defer cancel()
	s.cfg.Rebalanced(ctx)
}

// flat lists partitions for the log.
func flat(m map[string][]int32) []int32 {
	var out []int32
	for _, topic := range slices.Sorted(maps.Keys(m)) {
		out = append(out, slices.Sorted(slices.Values(m[topic]))...)
	}
	return out
}
