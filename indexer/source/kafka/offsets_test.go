package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func committed(t *testing.T, group string, partitions int32, opts ...kgo.Opt) map[int32]int64 {
	t.Helper()
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	topic := kmsg.NewOffsetFetchRequestTopic()
	topic.Topic = testTopic
	for p := range partitions {
		topic.Partitions = append(topic.Partitions, p)
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.Topics = group, append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	topics := resp.Topics
	out := map[int32]int64{}
	for _, tp := range topics {
		for _, p := range tp.Partitions {
			if p.Offset >= 0 {
				out[p.Partition] = p.Offset
			}
		}
	}
	if len(topics) == 0 && len(resp.Groups) == 1 {
		for _, tp := range resp.Groups[0].Topics {
			for _, p := range tp.Partitions {
				if p.Offset >= 0 {
					out[p.Partition] = p.Offset
				}
			}
		}
	}
	return out
}
