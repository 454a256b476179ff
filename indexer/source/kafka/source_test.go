package kafka

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/internal/storage"
)

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestRealMessages(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		p := start(w.t, "a", w.config())
		for _, name := range []string{"upsert", "delete", "insert_overwrite", "mor_upsert_inline_compaction", "no_acks_retries", "broker_down"} {
			if all := recorded(t, name); len(all) > 0 {
				w.produce(all...)
			}
		}
		settle()
		// Cases that sent nothing have no messages.
		want(t, "hints", p.got(), []string{"kafka_cb:20261130022437458", "kafka_cb:20261130022503453", "kafka_cb:20261130022634834",
			"kafka_mor:20261130022702454"})
		want(t, "set aside", p.Status().Counts.SetAside, map[string]int64{})
		if st := p.Status(); !st.Connected || st.Partitions != 4 || st.Outstanding != 4 {
			t.Errorf("status: %+v", st)
		}
		p.stop()
	})
}

func TestOffsetsFollowPassesInOrder(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		p := start(w.t, "a", w.config())
		at := partitionOf("t", 4)
		w.produce(message("t", 1), message("t", 2), message("t", 3), message("t", 4))
		settle()
		want(t, "nothing has ended", w.committed(), map[int32]int64{})
		p.hints[3].Done(nil)
		p.hints[1].Done(nil)
		settle()
		want(t, "the first has not ended", w.committed(), map[int32]int64{})
		p.hints[0].Done(errors.New("the table cannot be read")) // recorded: it does not hold the partition
		p.hints[0].Done(nil)                                    // twice is nothing
		settle()
		want(t, "two have ended", w.committed(), map[int32]int64{at: 2})
		p.hints[2].Done(context.Canceled) // stopped half-way
		settle()
		want(t, "the third was stopped", w.committed(), map[int32]int64{at: 2})
		p.stop()
		want(t, "after the end", w.committed(), map[int32]int64{at: 2})

		q := start(w.t, "b", w.config())
		settle()
		want(t, "after a restart", q.got(), []string{"t:" + instant(3), "t:" + instant(4)})
		q.stop()
	})
}

func TestDuplicatesAreDelivered(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		p := start(w.t, "a", w.config())
		var all []*kgo.Record
		for range 500 {
			all = append(all, message("t", 7))
		}
		w.produce(all...)
		settle()
		if n := len(p.got()); n != 500 {
			t.Errorf("%d hints, want 500: who takes them makes one pass of them", n)
		}
		p.end("", nil)
		settle()
		want(t, "offsets", w.committed(), map[int32]int64{partitionOf("t", 4): 500})
		p.stop()
	})
}

func TestPoisonIsSetAside(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		cfg := w.config()
		cfg.MaxMessage = 1000
		p := start(w.t, "a", cfg)
		values := []string{"", "\xff\xfe\x00", `{"commitTime":"20261130000000001"`, `{"order":17}`, `["20261130000000001"]`, "null", `"x"`, "12",
			`{"commitTime":"yesterday","basePath":"/t"}`, `{"commitTime":20261130000000001,"basePath":"/t"}`,
			`{"commitTime":"20261130000000001","basePath":""}`, `{"commitTime":"20261130000000001","basePath":["/t"]}`,
			`{"commitTime":"20261130000000001","basePath":"/t","pad":"` + strings.Repeat("x", 2000) + `"}`,
			`{"commitTime":"20261130000000001","tableName":"` + strings.Repeat("[", 900) + `"`}
		for _, v := range values {
			r := &kgo.Record{Key: []byte("t"), Value: []byte(v)}
			if v == "" {
				r.Value = nil
			}
			w.produce(r)
		}
		w.produce(message("t", 1))
		settle()
		want(t, "hints", p.got(), []string{"t:" + instant(1)})
		want(t, "reasons", p.Status().Counts.SetAside, map[string]int64{ReasonEmpty: 1, ReasonNotJSON: 3, ReasonShape: 9, ReasonOversized: 1})
		for _, reason := range []string{ReasonEmpty, ReasonNotJSON, ReasonShape, ReasonOversized} {
			if n := strings.Count(p.logged(), "reason="+reason); n != 1 {
				t.Errorf("%d samples of %s in the log, want 1", n, reason)
			}
		}
		if !strings.Contains(p.logged(), `order`) {
			t.Error("no sample of the value in the log")
		}
		want(t, "poison before an open pass", w.committed(), map[int32]int64{partitionOf("t", 4): int64(len(values))})
		p.stop()
	})
}

func TestOversizedBatchIsSkipped(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		cfg := w.config()
		cfg.MaxMessage = 1 << 20
		p := start(w.t, "a", cfg)
		// 5 MB of zeros are little on the wire; unpacking is bounded at 4 MiB.
		bomb := &kgo.Record{Key: []byte("t"), Value: make([]byte, 5<<20)}
		produce(w.t, []*kgo.Record{bomb}, kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.Dialer(w.net.DialContext),
			kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.ProducerBatchMaxBytes(8<<20), kgo.BrokerMaxWriteBytes(16<<20))
		w.produce(message("t", 1))
		settle()
		want(t, "hints", p.got(), []string{"t:" + instant(1)})
		want(t, "reasons", p.Status().Counts.SetAside, map[string]int64{ReasonBatch: 1})
		p.stop()
	})
}

func TestTraceContext(t *testing.T) {
	t.Parallel()
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for header, trace := range map[string]string{
		good: good,
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes-later": "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes-later",
		good + "-more": "",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01": "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": "",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01": "",
		"00-4bf92f35":             "",
		"":                        "",
		strings.Repeat("0-", 500): "",
	} {
		for _, key := range []string{"traceparent", "Traceparent"} {
			if got := traceOf([]kgo.RecordHeader{{Key: "other", Value: []byte(good)}, {Key: key, Value: []byte(header)}}); got != trace {
				t.Errorf("%s %q: got %q, want %q", key, header, got, trace)
			}
		}
	}
	inWorld(t, func(w *world) {
		p := start(w.t, "a", w.config())
		r := message("t", 1)
		r.Headers = []kgo.RecordHeader{{Key: "traceparent", Value: []byte(good)}}
		w.produce(r)
		settle()
		if len(p.hints) != 1 || p.hints[0].Trace != good || p.hints[0].Received.IsZero() {
			t.Errorf("hints: %+v", p.hints)
		}
		p.stop()
	})
}

func TestTooManyOutstandingAreLetGo(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		cfg := w.config()
		cfg.MaxOutstanding = 3
		p := start(w.t, "a", cfg)
		for i := range 5 {
			w.produce(message("t", i))
		}
		settle()
		at := partitionOf("t", 4)
		want(t, "offsets", w.committed(), map[int32]int64{at: 2})
		if st := p.Status(); st.Counts.LetGo != 2 || st.Outstanding != 3 {
			t.Errorf("status: %+v", st)
		}
		p.end("", nil)
		settle()
		want(t, "offsets", w.committed(), map[int32]int64{at: 5})
		p.stop()
	})
}

func TestSettingsAreCheckedTogether(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Brokers: []string{"nowhere"}, SASL: SASL{Mechanism: "GSSAPI"}, TLS: TLS{CA: "x", Cert: "y"}})
	for _, part := range []string{"brokers", "topic", "sasl.mechanism", "user and a password", "tls: cert and key", "enabled: false"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	if storage.Hint(err) == "" {
		t.Error("no hint")
	}
	_, err = New(Config{Brokers: []string{"a:1"}, Topic: "t", TLS: TLS{Enabled: true, CA: "gone.pem"}})
	if err == nil || storage.Hint(err) == "" {
		t.Errorf("CA that is not there: %v", err)
	}
}

func TestBackoffIsBounded(t *testing.T) {
	t.Parallel()
	var got []time.Duration
	for n := range 70 {
		got = append(got, backoff(n))
	}
	if !slices.IsSorted(got) || got[0] != 250*time.Millisecond || got[69] != 10*time.Second {
		t.Errorf("backoff: %v", got)
	}
}

func TestNameDecidesThePartition(t *testing.T) {
	t.Parallel()
	// Kafka's own test of its hash (UtilsTest.testMurmur2), without the sign bit, modulo 1000.
	for key, p := range map[string]int32{"21": 340, "foobar": 166, "a-little-bit-long-string": 112} {
		if got := partitionOf(key, 1000); got != p {
			t.Errorf("%s: partition %d, want %d", key, got, p)
		}
	}
}
