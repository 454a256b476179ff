package otel

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"tidemark/indexer"
)

// spans collects the spans that a test makes.
func spans(t *testing.T, fn func(*Telemetry)) tracetest.SpanStubs {
	t.Helper()
	out := tracetest.NewInMemoryExporter()
	tel, err := New(t.Context(), Config{Spans: keep{out}, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	fn(tel)
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	return out.GetSpans()
}

// keep is the exporter without its Shutdown, which forgets all spans.
type keep struct{ *tracetest.InMemoryExporter }

func (keep) Shutdown(context.Context) error { return nil }

type brief struct {
	Name, Parent string
	From, To     time.Duration // after noon
}

func briefs(all tracetest.SpanStubs) []brief {
	names := map[string]string{}
	for _, s := range all {
		names[s.SpanContext.SpanID().String()] = s.Name
	}
	var out []brief
	for _, s := range all {
		out = append(out, brief{s.Name, names[s.Parent.SpanID().String()], s.StartTime.Sub(noon), s.EndTime.Sub(noon)})
	}
	return out
}

func TestTraceOfACommit(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	all := spans(t, func(tel *Telemetry) { tel.Covered(covered("/t", "a", "1")) })
	want := []brief{
		{spanRoot, "", 0, 1800 * ms}, {spanNotice, spanRoot, 0, 100 * ms}, {spanDiff, spanRoot, 200 * ms, 1000 * ms},
		{spanGroup, spanDiff, 300 * ms, 600 * ms}, {spanGroup, spanDiff, 600 * ms, 1000 * ms}, {spanEncode, spanRoot, 1000 * ms, 1200 * ms},
		{spanStage, spanRoot, 1200 * ms, 1500 * ms}, {spanCommit, spanRoot, 1500 * ms, 1800 * ms}, {spanCovered, spanRoot, 1800 * ms, 1800 * ms},
	}
	if d := cmp.Diff(want, briefs(all)); d != "" {
		t.Errorf("spans (-want +got):\n%s", d)
	}
	ids := map[string]bool{}
	for _, s := range all {
		if s.SpanContext.TraceID() != all[0].SpanContext.TraceID() {
			t.Errorf("%s is in another trace", s.Name)
		}
		if ids[s.SpanContext.SpanID().String()] {
			t.Errorf("%s has another span's id", s.Name)
		}
		ids[s.SpanContext.SpanID().String()] = true
	}
	// A replay, or another process, gives the same ids.
	again := spans(t, func(tel *Telemetry) { tel.Covered(covered("/t", "a", "1")) })
	for i := range all {
		if all[i].SpanContext.SpanID() != again[i].SpanContext.SpanID() || all[i].SpanContext.TraceID() != again[i].SpanContext.TraceID() {
			t.Errorf("%s has other ids at the second time", all[i].Name)
		}
	}
	if other := spans(t, func(tel *Telemetry) { tel.Covered(covered("/u", "a", "1")) }); other[0].SpanContext.TraceID() == all[0].SpanContext.TraceID() {
		t.Error("two tables share a trace")
	}
	if want := TraceID("/t\x001"); all[0].SpanContext.TraceID() != want {
		t.Errorf("trace id %s, want %s", all[0].SpanContext.TraceID(), want)
	}
}

func TestTraceJoinsTheWriters(t *testing.T) {
	t.Parallel()
	const id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	all := spans(t, func(tel *Telemetry) {
		tel.Noticed("/t", "1", "00-"+id+"-"+parent+"-01", noon)
		tel.Noticed("/t", "2", "nonsense", noon)
		tel.Noticed("/u", "1", "00-"+id+"-ffffffffffffffff-01", noon) // another table's
		tel.Covered(covered("/t", "a", "1"))
		tel.Covered(covered("/t", "a", "2"))
	})
	for _, s := range all {
		joined := s.SpanContext.TraceID().String() == id
		if first := s.StartTime.Before(noon.Add(time.Hour)) && len(s.Attributes) > 0; !first {
			t.Errorf("%s has no attributes", s.Name)
		}
		if s.Name == spanRoot && joined && s.Parent.SpanID().String() != parent {
			t.Errorf("parent of the commit is %s", s.Parent.SpanID())
		}
	}
	joined, derived := 0, 0
	for _, s := range all {
		switch s.SpanContext.TraceID().String() {
		case id:
			joined++
		case hex.EncodeToString(idOf("/t\x002")):
			derived++
		default:
			t.Errorf("%s is in trace %s", s.Name, s.SpanContext.TraceID())
		}
	}
	if joined != 9 || derived != 9 {
		t.Errorf("%d spans joined, %d derived, want 9 each", joined, derived)
	}
}

func idOf(seed string) []byte {
	id := TraceID(seed)
	return id[:]
}

func TestOneCommitSpanForSeveralIndexes(t *testing.T) {
	t.Parallel()
	all := spans(t, func(tel *Telemetry) {
		tel.Covered(covered("/t", "a", "1"))
		b := covered("/t", "b", "1")
		b.CompletedAt, b.Steps = time.Time{}, indexer.Steps{Looked: noon, Compared: noon.Add(time.Second), Visible: noon.Add(time.Minute)}
		tel.Covered(b)
	})
	n := map[string]int{}
	for _, s := range all {
		n[s.Name]++
	}
	// What was not taken is left out.
	want := map[string]int{spanRoot: 1, spanNotice: 2, spanDiff: 2, spanGroup: 2, spanEncode: 1, spanStage: 1, spanCommit: 1, spanCovered: 2}
	if d := cmp.Diff(want, n); d != "" {
		t.Errorf("spans by name (-want +got):\n%s", d)
	}
}

func TestMemoryOfTracesIsBounded(t *testing.T) {
	t.Parallel()
	var f fifo[int]
	for i := range 3 * maxWaiting {
		f.put(commitKey{"t", string(rune(i))}, i)
	}
	f.put(commitKey{"u", "1"}, 1)
	if len(f.values) > maxWaiting || len(f.order) > maxWaiting {
		t.Errorf("%d values, %d in order", len(f.values), len(f.order))
	}
	f.drop("t")
	if len(f.values) != 1 || len(f.order) != 1 {
		t.Errorf("%d values, %d in order after a table went", len(f.values), len(f.order))
	}
}
