package kafka

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestRealBroker shares a topic of a real broker between two processes, one of which ends: TIDEMARK_TEST_KAFKA is its host:port.
func TestRealBroker(t *testing.T) {
	t.Parallel()
	broker := os.Getenv("TIDEMARK_TEST_KAFKA")
	if broker == "" {
		t.Skip("TIDEMARK_TEST_KAFKA names no broker")
	}
	to := []kgo.Opt{kgo.SeedBrokers(broker), kgo.AllowAutoTopicCreation()}
	topic := fmt.Sprintf("hudi-commits-%d", time.Now().UnixNano())
	group := topic
	send := func(r *kgo.Record) {
		t.Helper()
		r.Topic = topic
		produce(t, []*kgo.Record{r}, to...)
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(time.Minute); !holds(); <-tick.C {
			if time.Now().After(end) {
				t.Fatalf("not within a minute: %s", what)
			}
		}
	}
	send(recorded(t, "upsert")[0])
	cfg := Config{Brokers: []string{broker}, Topic: topic, Group: group}
	a := start(t, "a", cfg)
	until("a reads", func() bool { return len(a.got()) == 1 })
	if a.Owns("kafka_cb") != Owned {
		t.Errorf("a owns the table: %v", a.Owns("kafka_cb"))
	}
	send(&kgo.Record{Value: []byte("not for us")})
	send(recorded(t, "delete")[0])
	until("a reads on", func() bool { return len(a.got()) == 2 && a.Status().Counts.SetAside[ReasonNotJSON] == 1 })
	a.hints[0].Done(nil)
	b := start(t, "b", cfg)
	until("b is in the group", func() bool { return b.Owns("kafka_cb") != Unknown })
	// The topic has one partition: one of them has it.
	if (a.Owns("kafka_cb") == Owned) == (b.Owns("kafka_cb") == Owned) {
		t.Errorf("owners: a %v, b %v", a.Owns("kafka_cb"), b.Owns("kafka_cb"))
	}
	a.stop()
	until("b takes over", func() bool { return b.Owns("kafka_cb") == Owned && len(b.got()) >= 1 })
	// The first message's pass had ended, the last one's had not.
	want(t, "b reads again", b.got(), []string{"kafka_cb:20261130022503453"})
	b.end("", nil)
	until("all is committed", func() bool {
		st := b.Status()
		return st.Outstanding == 0 && st.Connected
	})
	b.stop()
	last := start(t, "last", cfg)
	until("the last one has joined", func() bool { return last.Owns("kafka_cb") == Owned })
	send(recorded(t, "insert_overwrite")[0])
	until("it reads", func() bool { return len(last.got()) > 0 })
	want(t, "after everything was committed", last.got(), []string{"kafka_cb:20261130022634834"})
	last.stop()
}
