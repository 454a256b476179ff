package otel

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// receiver takes what is sent by OTLP, over HTTP and by gRPC, on one address, and keeps it.
type receiver struct {
	*httptest.Server
	t *testing.T

	mu   sync.Mutex
	sent map[string][][]byte // messages by path
}

func receive(t *testing.T) *receiver {
	r := &receiver{t: t, sent: map[string][][]byte{}}
	r.Server = httptest.NewUnstartedServer(r)
	var both http.Protocols
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true) // as gRPC without TLS
	r.Config.Protocols = &both
	r.Start()
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	b, err := io.ReadAll(q.Body)
	if err != nil {
		r.t.Error(err)
	}
	if q.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err == nil {
			b, err = io.ReadAll(z)
		}
		if err != nil {
			r.t.Error(err)
		}
	}
	if rpc := strings.HasPrefix(q.Header.Get("Content-Type"), "application/grpc"); rpc { // a flag and a length are before the message
		if len(b) < 5 || b[0] != 0 || int(binary.BigEndian.Uint32(b[1:])) != len(b)-5 {
			r.t.Errorf("%s: %d bytes are no message", q.URL.Path, len(b))
			return
		}
		b = b[5:]
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(make([]byte, 5)) // an empty message
		w.Header().Set("Grpc-Status", "0")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent[q.URL.Path] = append(r.sent[q.URL.Path], b)
}

// parts returns what a Protobuf message has at a path of field numbers, in order.
func (r *receiver) parts(message []byte, path ...uint64) [][]byte {
	if len(path) == 0 {
		return [][]byte{message}
	}
	var out [][]byte
	for len(message) > 0 {
		key, n := binary.Uvarint(message)
		message = message[max(n, 0):]
		size := 0
		switch key & 7 {
		case 0:
			_, size = binary.Uvarint(message)
		case 1:
			size = 8
		case 5:
			size = 4
		case 2:
			length, n := binary.Uvarint(message)
			message, size = message[max(n, 0):], int(length)
		}
		if n <= 0 || size <= 0 && key&7 != 2 || size > len(message) {
			r.t.Fatal("a message is cut")
		}
		if key>>3 == path[0] {
			out = append(out, r.parts(message[:size], path[1:]...)...)
		}
		message = message[size:]
	}
	return out
}

// text is the only thing at a path; "" for none.
func (r *receiver) text(message []byte, path ...uint64) string {
	all := r.parts(message, path...)
	if len(all) == 0 {
		return ""
	}
	return string(all[0])
}

// attributes are those of a resource or span, at a field of it, as far as they are texts.
func (r *receiver) attributes(message []byte, field uint64) map[string]string {
	out := map[string]string{}
	for _, kv := range r.parts(message, field) {
		out[r.text(kv, 1)] = r.text(kv, 2, 1)
	}
	return out
}

// span is one that arrived.
type span struct{ trace, id, parent, name string }

// spans returns the spans that arrived at a path, by name, and the resource that sent them.
func (r *receiver) spans(path string) (spans map[string][]span, from map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	spans = map[string][]span{}
	for _, b := range r.sent[path] {
		for _, one := range r.parts(b, 1) {
			from = r.attributes([]byte(r.text(one, 1)), 1)
			for _, s := range r.parts(one, 2, 2) {
				x := span{hex.EncodeToString([]byte(r.text(s, 1))), hex.EncodeToString([]byte(r.text(s, 2))), hex.EncodeToString([]byte(r.text(s, 4))), r.text(s, 5)}
				spans[x.name] = append(spans[x.name], x)
			}
		}
	}
	return spans, from
}

// metrics returns the units of the metrics that arrived at a path, by name, and the resource that sent them.
func (r *receiver) metrics(path string) (units map[string]string, from map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	units = map[string]string{}
	for _, b := range r.sent[path] {
		for _, one := range r.parts(b, 1) {
			from = r.attributes([]byte(r.text(one, 1)), 1)
			for _, m := range r.parts(one, 2, 2) {
				units[r.text(m, 1)] = r.text(m, 3)
			}
		}
	}
	return units, from
}

// TestOTLP sends commits as the standard variables say, over HTTP and by gRPC, and reads what arrives: one trace per commit, that of the writer
// where the hint brought one, its steps below it, all metrics, and who sent them.
func TestOTLP(t *testing.T) { // not parallel: the exporters read the process's environment
	const writer, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for protocol, paths := range map[string][2]string{
		"http/protobuf": {"/v1/metrics", "/v1/traces"},
		"grpc": {"/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
			"/opentelemetry.proto.collector.trace.v1.TraceService/Export"},
	} {
		t.Run(protocol, func(t *testing.T) {
			r := receive(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
			t.Setenv("OTEL_SERVICE_NAME", "my-index")
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
			tel, err := New(t.Context(), Config{Version: "v1"})
			if err != nil {
				t.Fatal(err)
			}
			sourceOf(tel)
			tel.Noticed("/data/t", "2", "00-"+writer+"-"+parent+"-01", noon)
			everything(tel, "/data/t")
			tel.Covered(covered("/data/t", "a", "2"))
			end, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := tel.Shutdown(end); err != nil {
				t.Fatal(err)
			}
			units, from := r.metrics(paths[0])
			for _, m := range Metrics {
				unit, sent := units[m.Name]
				if want := m.unit(); !sent || unit != want {
					t.Errorf("%s: sent %v, unit %q, want %q", m.Name, sent, unit, want)
				}
			}
			spans, sender := r.spans(paths[1])
			for _, who := range []map[string]string{from, sender} {
				if who["service.name"] != "my-index" || who["service.version"] != "v1" || who["deployment.environment"] != "test" || who["host.name"] == "" {
					t.Errorf("sent by %v", who)
				}
			}
			roots := spans[spanRoot]
			if len(roots) != 2 {
				t.Fatalf("%d commits arrived, want 2: %v", len(roots), spans)
			}
			id := TraceID("/data/t\x001")
			for _, root := range roots {
				switch root.trace {
				case writer:
					if root.parent != parent {
						t.Errorf("a commit is below %q, not below its writer's span", root.parent)
					}
				case id.String():
					if root.parent != "" {
						t.Errorf("a commit without a writer's trace is below %q", root.parent)
					}
				default:
					t.Errorf("a commit has trace %s", root.trace)
				}
				for _, name := range []string{spanNotice, spanDiff, spanEncode, spanStage, spanCommit, spanCovered} {
					if n := slices.IndexFunc(spans[name], func(s span) bool { return s.trace == root.trace && s.parent == root.id }); n < 0 {
						t.Errorf("no %s below the commit of trace %s: %v", name, root.trace, spans[name])
					}
				}
				diff := spans[spanDiff][slices.IndexFunc(spans[spanDiff], func(s span) bool { return s.trace == root.trace })]
				groups := slices.DeleteFunc(slices.Clone(spans[spanGroup]), func(s span) bool { return s.trace != root.trace || s.parent != diff.id })
				if len(groups) != 2 {
					t.Errorf("%d file groups below the comparison", len(groups))
				}
			}
		})
	}
}
