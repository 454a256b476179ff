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
	tell teller
	link link // is the broker there

	mu         sync.Mutex
	held       map[place]*held           // partitions that are ours
	marked     map[place]kgo.EpochOffset // done, to be committed
	member     bool                      // of the group: held is what we have been given
	settled    bool                      // and it is not being shared out anew
	partitions int                       // of the topic; 0: not known
	seen       map[string]place          // where messages of a table came, in partitions that are ours
	counts     Counts
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
	s := &Source{cfg: cfg, opts: opts, held: map[place]*held{}, marked: map[place]kgo.EpochOffset{}, seen: map[string]place{}}
	s.counts.SetAside = map[string]int64{}
	s.tell.log, s.link.tell = cfg.Log, &s.tell
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
	working, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.commitLoop(working, cl) })
	wg.Go(func() { s.watch(working, cl) })
	defer func() {
		stop()
		wg.Wait()
		s.leave(cl)
	}()
	for ctx.Err() == nil {
		fetches := cl.PollRecords(ctx, 500)
		fetches.EachError(func(topic string, partition int32, err error) { s.failed(cl, topic, partition, err) })
		now := time.Now()
		fetches.EachRecord(func(r *kgo.Record) { s.take(r, now, deliver) })
		cl.AllowRebalance()
	}
	return nil
}

// leaving bounds how long a broker that does not answer keeps Run from ending.
const leaving = 3 * time.Second

// leave gives the partitions up (see revoked), so that others have them at once, and closes the connections.
func (s *Source) leave(cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), leaving)
	defer cancel()
	cl.AllowRebalance()
	if err := cl.LeaveGroupContext(ctx); err != nil {
		s.tell.say("leave", "the group was not told that we leave; it finds out when our session ends", "error", err)
	}
	cl.CloseAllowingRebalance()
	s.mu.Lock()
	s.member, s.settled = false, false
	clear(s.marked)
	s.mu.Unlock()
}

// take delivers what a message tells of, or sets it aside.
func (s *Source) take(r *kgo.Record, now time.Time, deliver func(source.Hint)) {
	s.link.read(nil)
	at := place{r.Topic, r.Partition}
	c, why := parse(r.Value, s.cfg.MaxMessage)
	s.mu.Lock()
	h := s.held[at]
	s.counts.Messages++
	if why != "" {
		s.counts.SetAside[why]++
	} else if c.TableName != "" && h != nil {
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
		text := "message set aside: it is no commit callback of Hudi"
		if why == ReasonOversized {
			text = fmt.Sprintf("message set aside: it has more than %d bytes, which sources.kafka.max_message allows", s.cfg.MaxMessage)
		}
		s.tell.say(why, text, "reason", why, "topic", r.Topic, "partition", r.Partition,
			"offset", r.Offset, "bytes", len(r.Value), "sample", sample(r.Value))
		done()
		return
	}
	deliver(source.Hint{Source: s.Name(), Table: c.BasePath, Instant: c.CommitTime, Trace: traceOf(r.Headers), Received: now, Done: func(err error) {
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
		s.link.read(fmt.Errorf("read topic %s: %w", s.cfg.Topic, err))
	}
}

// assigned takes partitions.
func (s *Source) assigned(ctx context.Context, cl *kgo.Client, got map[string][]int32) {
	partitions, err := s.count(ctx, cl)
	s.mu.Lock()
	s.member, s.settled = true, true
	if err == nil {
		s.partitions = partitions
	}
	n := 0
	for topic, partitions := range got {
		for _, p := range partitions {
			s.held[place{topic, p}] = &held{commit: s.mark}
			n++
		}
	}
	s.counts.Rebalances++
	s.mu.Unlock()
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
	s.member, s.settled = s.member && commit, false
	for topic, partitions := range gone {
		for _, p := range partitions {
			if h := s.held[place{topic, p}]; h != nil {
				mine = append(mine, h)
				delete(s.held, place{topic, p})
			}
		}
	}
	maps.DeleteFunc(s.seen, func(_ string, at place) bool { return s.held[at] == nil })
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
		s.commit(ctx, cl)
	}
	s.mu.Lock()
	maps.DeleteFunc(s.marked, func(at place, _ kgo.EpochOffset) bool { return s.held[at] == nil })
	s.mu.Unlock()
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
