package otel

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"tidemark/indexer"
)

// Names of spans. That of the data commit is the parent of all others but of the file groups', whose parent is the comparison.
const (
	spanRoot    = "data commit"
	spanNotice  = "notice"
	spanDiff    = "diff"
	spanGroup   = "diff file group"
	spanEncode  = "encode"
	spanStage   = "stage"
	spanCommit  = "commit"
	spanCovered = "covered"
)

// maxWaiting bounds how many commits are remembered between their hint and their coverage, and after it.
const maxWaiting = 10_000

// traces makes one trace per data commit, after the fact: all of its moments are known when it is covered.
type traces struct {
	tracer trace.Tracer

	mu    sync.Mutex
	heard fifo[string]            // traceparents of writers
	roots fifo[trace.SpanContext] // spans of data commits, for the other indexes
}

func newTraces(t trace.Tracer) *traces { return &traces{tracer: t} }

func (t *traces) notice(table, instant, parent string) {
	if t == nil || parent == "" || instant == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard.put(commitKey{table, instant}, parent)
}

func (t *traces) forget(table string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard.drop(table)
	t.roots.drop(table)
}

// covered makes the spans of a commit in one index. The first index of a commit makes the commit's own span.
func (t *traces) covered(c indexer.CoveredInstant) {
	if t == nil {
		return
	}
	key := commitKey{c.Table, c.Requested}
	t.mu.Lock()
	parent := t.heard.get(key)
	root, known := t.roots.find(key)
	t.mu.Unlock()
	begin := c.CompletedAt
	for _, at := range []time.Time{c.Steps.Noticed, c.Steps.Looked, c.Steps.Visible} {
		if begin.IsZero() {
			begin = at
		}
	}
	seed := c.Table + "\x00" + c.Requested
	ctx := context.WithValue(context.Background(), seedKey{}, seed)
	if !known {
		if parent != "" {
			ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
		}
		_, span := t.tracer.Start(ctx, spanRoot, trace.WithTimestamp(begin), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			attribute.String("tidemark.table", c.Table), attribute.String("tidemark.instant", c.Requested),
			attribute.String("tidemark.completed", c.Completed), attribute.String("tidemark.action", c.Action),
			attribute.String("tidemark.operation", c.Operation)))
		span.End(trace.WithTimestamp(c.Steps.Visible))
		root = span.SpanContext()
		t.mu.Lock()
		t.roots.put(key, root)
		t.mu.Unlock()
	}
	ctx = trace.ContextWithSpanContext(ctx, root)
	t.steps(ctx, seed+"\x00"+c.Index, begin, c)
}

// steps makes the spans of what led to the coverage of a commit in one index. A step whose moments were not taken is left out.
func (t *traces) steps(ctx context.Context, seed string, begin time.Time, c indexer.CoveredInstant) {
	index := attribute.String("tidemark.index", c.Index)
	make := func(ctx context.Context, name, more string, from, to time.Time, kv ...attribute.KeyValue) context.Context {
		if from.IsZero() || to.IsZero() {
			return ctx
		}
		ctx = context.WithValue(ctx, seedKey{}, seed+"\x00"+name+more)
		inner, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from), trace.WithAttributes(append(kv, index)...))
		span.End(trace.WithTimestamp(later(from, to)))
		return inner
	}
	s := c.Steps
	noticed, by := s.Noticed, "source"
	if noticed.IsZero() {
		noticed, by = s.Looked, "poll"
	}
	make(ctx, spanNotice, "", begin, noticed, attribute.String("tidemark.noticed_by", by))
	diff := make(ctx, spanDiff, "", s.Looked, s.Compared, attribute.String("tidemark.mode", c.Mode))
	for _, g := range s.Groups {
		make(diff, spanGroup, g.Partition+"\x00"+g.FileID, g.From, g.To, attribute.String("tidemark.partition", g.Partition),
			attribute.String("tidemark.file_id", g.FileID))
	}
	make(ctx, spanEncode, "", s.Compared, s.Encoded)
	make(ctx, spanStage, "", s.Encoded, s.Staged)
	make(ctx, spanCommit, "", s.Staged, s.Visible, attribute.String("tidemark.mdt_commit", c.Commit))
	counts := []attribute.KeyValue{attribute.String("tidemark.frontier", c.Frontier)}
	for _, class := range classNames() {
		counts = append(counts, attribute.Int64("tidemark.rows."+class, c.Counts[class]))
	}
	make(ctx, spanCovered, "", s.Visible, s.Visible, counts...)
}

func later(a, b time.Time) time.Time {
	if b.Before(a) {
		return a
	}
	return b
}

// seedKey is the key of the text, in a context, that ids are derived from.
type seedKey struct{}

// derived makes ids from the table and the instant, so that a replay of a commit gives the same trace.
type derived struct{}

// NewIDs is asked for the ids of a trace's first span.
func (d derived) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id := TraceID(seedOf(ctx))
	return id, d.NewSpanID(ctx, id)
}

// NewSpanID is asked for that of every other one.
func (derived) NewSpanID(ctx context.Context, id trace.TraceID) trace.SpanID {
	sum := sha256.Sum256(append(id[:], "\x00span\x00"+seedOf(ctx)...))
	var out trace.SpanID
	copy(out[:], sum[:])
	if !out.IsValid() {
		binary.BigEndian.PutUint64(out[:], 1)
	}
	return out
}

func seedOf(ctx context.Context) string {
	seed, _ := ctx.Value(seedKey{}).(string)
	return seed
}

// TraceID is the id of a commit's trace where its writer sent none: seed is the table, a zero byte and the requested time.
func TraceID(seed string) trace.TraceID {
	sum := sha256.Sum256([]byte("tidemark\x00trace\x00" + seed))
	var id trace.TraceID
	copy(id[:], sum[:])
	return id
}

// commitKey names a data commit.
type commitKey struct{ table, instant string }

// fifo remembers the newest maxWaiting values.
type fifo[V any] struct {
	values map[commitKey]V
	order  []commitKey
}

func (f *fifo[V]) put(k commitKey, v V) {
	if f.values == nil {
		f.values = map[commitKey]V{}
	}
	if _, known := f.values[k]; !known {
		f.order = append(f.order, k)
	}
	f.values[k] = v
	for len(f.order) > maxWaiting {
		delete(f.values, f.order[0])
		f.order = f.order[1:]
	}
}

func (f *fifo[V]) get(k commitKey) V { return f.values[k] }

func (f *fifo[V]) find(k commitKey) (V, bool) {
	v, ok := f.values[k]
	return v, ok
}

func (f *fifo[V]) drop(table string) {
	var kept []commitKey
	for _, k := range f.order {
		if k.table == table {
			delete(f.values, k)
		} else {
			kept = append(kept, k)
		}
	}
	f.order = kept
}
