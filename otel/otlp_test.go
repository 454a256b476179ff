package otel

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestOTLP sends a commit by OTLP as the standard variables say, to a server that only takes notes.
func TestOTLP(t *testing.T) { // not parallel: the exporters read the process's environment
	var mu sync.Mutex
	got := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path] += string(b)
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_SERVICE_NAME", "my-index")
	tel, err := New(t.Context(), Config{Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	everything(tel, "/data/t")
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	for path, parts := range map[string][]string{
		"/v1/metrics": {"my-index", lagInstants, coverageSeconds, "/data/t"},
		"/v1/traces":  {"my-index", spanRoot, spanGroup, spanCovered, "tidemark.rows.insert", "/data/t"},
	} {
		for _, p := range parts {
			if !strings.Contains(got[path], p) { // the bytes of a Protobuf message hold texts as they are
				t.Errorf("%s was not sent to %s", p, path)
			}
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if tel, err = New(t.Context(), Config{}); err != nil {
		t.Fatal(err)
	}
	end, cancel := context.WithCancel(t.Context())
	cancel() // nobody answers by gRPC there
	_ = tel.Shutdown(end)
}
