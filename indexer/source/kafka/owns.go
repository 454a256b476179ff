package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Ownership says whose a table is among the processes of a consumer group.
type Ownership int

// The answers of Owns.
const (
	// Unknown: this process is in no group now. The table's lease alone decides.
	Unknown Ownership = iota
	// Owned: the table's partition is ours; take its lease.
	Owned
	// Elsewhere: the table's partition is another process's; give its lease up.
	Elsewhere
)

// Owns says whose a table is, by the table's name (hoodie.table.name). That is the key of its messages, so that all of a name come in
// one partition: the one that Kafka's own partitioner gives the key, or, for a writer with a partition of its own, the one where its
// messages were seen. Every table is Owned by at least one process of a group whose members have all partitions; it may be two for a while,
// until the first message of a writer with its own partition: then the lease decides.
func (s *Source) Owns(name string) Ownership {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.member || s.partitions == 0 {
		return Unknown
	}
	at, seen := s.seen[name]
	if !seen {
		at = place{s.cfg.Topic, partitionOf(name, s.partitions)}
	}
	if s.held[at] != nil {
		return Owned
	}
	return Elsewhere
}

// partitionOf is where Kafka's default partitioner puts a key, in the Java client as in ours.
func partitionOf(key string, partitions int) int32 {
	p := kgo.StickyKeyPartitioner(nil).ForTopic("")
	return int32(p.Partition(&kgo.Record{Key: []byte(key)}, partitions))
}

// count asks how many partitions the topic has. A group shares them out anew when that changes.
func (s *Source) count(ctx context.Context, cl *kgo.Client) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &s.cfg.Topic
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return 0, err
	}
	for _, t := range resp.Topics {
		return len(t.Partitions), kerr.ErrorForCode(t.ErrorCode)
	}
	return 0, kerr.UnknownTopicOrPartition
}

// watching is how often a topic that we are not given partitions of is asked for: the client waits in silence for one that is not there.
const watching = 30 * time.Second

// watch finds out why there are no messages, until ctx ends.
func (s *Source) watch(ctx context.Context, cl *kgo.Client) {
	tick := time.NewTicker(watching)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		member := s.member
		s.mu.Unlock()
		if member {
			continue
		}
		// A broker that cannot be reached at all is heard of elsewhere.
		var refused *kerr.Error
		if _, err := s.count(ctx, cl); errors.As(err, &refused) {
			s.link.down(fmt.Errorf("topic %s: %w", s.cfg.Topic, err))
		}
	}
}
