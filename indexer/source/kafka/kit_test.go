package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/indexer/source"
	"tidemark/internal/testkit"
)

const testTopic = "hudi-commits"

// world is a broker in a bubble of virtual time, and the wires to it.
type world struct {
	t       *testing.T
	net     kfake.VirtualNetwork
	cluster *kfake.Cluster

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// inWorld runs a test in virtual time beside a broker. Whatever it starts must have ended when it returns: the bubble says so.
func inWorld(t *testing.T, fn func(w *world), opts ...kfake.Opt) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(w.net.Listen),
			kfake.SeedTopics(4, testTopic)}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		w.cluster = c
		fn(w)
	})
}

// dial connects unless the wires are cut.
func (w *world) dial(ctx context.Context, network, host string) (net.Conn, error) {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut {
		return nil, errors.New("connection refused")
	}
	c, err := w.net.DialContext(ctx, network, host)
	if err == nil {
		w.mu.Lock()
		w.conns = append(w.conns, c)
		w.mu.Unlock()
	}
	return c, err
}

// setCut cuts every wire of those who dial, or mends them.
func (w *world) setCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for _, c := range w.conns {
			_ = c.Close()
		}
		w.conns = nil
	}
}

// config is that of a process in the world.
func (w *world) config() Config {
	return Config{Brokers: w.cluster.ListenAddrs(), Topic: testTopic, dial: w.dial}
}

// produce sends messages as Hudi does: keyed by the table's name.
func (w *world) produce(records ...*kgo.Record) {
	w.t.Helper()
	produce(w.t, records, kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.Dialer(w.net.DialContext))
}

func produce(t *testing.T, records []*kgo.Record, opts ...kgo.Opt) {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.DefaultProduceTopic(testTopic), kgo.RecordPartitioner(manual{kgo.StickyKeyPartitioner(nil)}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// manual is the default partitioner but for records with a partition.
type manual struct{ kgo.Partitioner }

func (m manual) ForTopic(topic string) kgo.TopicPartitioner {
	return manualTopic{m.Partitioner.ForTopic(topic)}
}

type manualTopic struct{ kgo.TopicPartitioner }

func (m manualTopic) Partition(r *kgo.Record, n int) int {
	if r.Partition > 0 {
		return int(r.Partition)
	}
	return m.TopicPartitioner.Partition(r, n)
}

// message is a callback of a table's commit number n.
func message(table string, n int) *kgo.Record {
	v := fmt.Sprintf(`{"commitTime":"%s","tableName":%q,"basePath":"/data/tables/%s","hoodieWriteStat":[],`+
		`"commitActionType":{"empty":false,"present":true},"extraMetadata":{"empty":false,"present":true}}`, instant(n), table, table)
	return &kgo.Record{Key: []byte(table), Value: []byte(v)}
}

func instant(n int) string { return fmt.Sprintf("20261130%09d", n) }

// recorded are the messages of real Hudi that a case holds.
func recorded(t *testing.T, name string) []*kgo.Record {
	t.Helper()
	var c struct {
		Messages []struct {
			Key, Value string
			KeyIsNull  bool
		}
	}
	if err := json.Unmarshal(testkit.File(t, "callbacks/kafka_"+name+".json"), &c); err != nil {
		t.Fatal(err)
	}
	var out []*kgo.Record
	for _, m := range c.Messages {
		out = append(out, &kgo.Record{Key: []byte(m.Key), Value: []byte(m.Value)})
	}
	return out
}

// process is a running Source and what it delivered.
type process struct {
	*Source
	name string
	stop func()

	mu    sync.Mutex
	hints []source.Hint
	log   strings.Builder
}

// start runs a Source. Its hints wait in the process until the test ends their passes.
func start(t *testing.T, name string, cfg Config) *process {
	t.Helper()
	p := &process{name: name}
	cfg.Log = slog.New(slog.NewTextHandler(io.Writer(p), nil))
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.Source = s
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, p.deliver) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: run ended with %v", name, err)
		}
	})
	t.Cleanup(p.stop)
	return p
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) deliver(h source.Hint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hints = append(p.hints, h)
}

// got are the hints so far as table:instant, sorted.
func (p *process) got() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, h := range p.hints {
		out = append(out, strings.TrimPrefix(h.Table, "/data/tables/")+":"+h.Instant)
	}
	slices.Sort(out)
	return out
}

// end ends the passes after hints of a table, newest first if backwards.
func (p *process) end(table string, err error) {
	p.mu.Lock()
	all := slices.Clone(p.hints)
	p.mu.Unlock()
	for _, h := range all {
		if table == "" || strings.HasSuffix(h.Table, "/"+table) {
			h.Done(err)
		}
	}
}

// committed are the group's offsets by partition; partitions without one are left out.
func (w *world) committed() map[int32]int64 {
	w.t.Helper()
	return committed(w.t, "tidemark", 4, kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.Dialer(w.net.DialContext))
}

// tables returns one table name for each partition of 4.
func tables() [4]string {
	var out [4]string
	for i := 0; slices.Contains(out[:], ""); i++ {
		name := fmt.Sprintf("t%d", i)
		if p := partitionOf(name, 4); out[p] == "" {
			out[p] = name
		}
	}
	return out
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// settle lets virtual time pass until everything that is going to happen soon has happened.
func settle() { pass(10 * time.Second) }
