package search_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/cloudtest"
	"tidemark/internal/storage/object"
	"tidemark/internal/storage/retry"
	"tidemark/internal/storage/s3"
	"tidemark/search"
)

// wire counts what one client asks of a server: requests by kind, bytes of contents, all bytes of its connections, and how many requests
// had to wait for another.
type wire struct {
	base           *http.Transport
	away           time.Duration // is added to each request
	sent, received atomic.Int64  // with headers

	mu       sync.Mutex // guards the fields below
	requests map[string]int
	content  int64
	ended    int // the longest chain of requests that have ended, each of which began after the end of the one before
}

func newWire(away time.Duration) *wire {
	w := &wire{base: object.Transport(), away: away, requests: map[string]int{}}
	dial := w.base.DialContext
	w.base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countedConn{c, w}, nil
	}
	return w
}

type countedConn struct {
	net.Conn
	of *wire
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.of.received.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.of.sent.Add(int64(n))
	return n, err
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	kind := r.Method
	switch {
	case r.URL.Query().Has("list-type"):
		kind = "LIST"
	case r.Header.Get("Range") != "":
		kind = "RANGE"
	}
	w.mu.Lock()
	w.requests[kind]++
	rank := w.ended + 1
	w.mu.Unlock()
	<-time.After(w.away)
	resp, err := w.base.RoundTrip(r)
	if err != nil || r.Method == http.MethodHead {
		w.end(rank)
	} else {
		resp.Body = &countedBody{resp.Body, w, rank}
	}
	return resp, err
}

func (w *wire) end(rank int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = max(w.ended, rank)
}

type countedBody struct {
	io.ReadCloser
	of   *wire
	rank int
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.of.mu.Lock()
	b.of.content += int64(n)
	b.of.mu.Unlock()
	if err != nil {
		b.of.end(b.rank)
	}
	return n, err
}

func (b *countedBody) Close() error {
	b.of.end(b.rank)
	return b.ReadCloser.Close()
}

// onS3 copies a table into a bucket and returns how to open it there as a process does that knows nothing of it: with a configuration and
// connections of its own. The bucket is on the server that TIDEMARK_TEST_S3 and the SDK's variables name, else on one in this process.
func onS3(b *testing.B, from storage.Store, paths []string) func(w *wire) storage.Store {
	b.Helper()
	var o s3.Options
	bucket, dir, _ := strings.Cut(strings.TrimPrefix(os.Getenv("TIDEMARK_TEST_S3"), "s3://"), "/")
	if bucket == "" {
		server := cloudtest.S3(b)
		bucket, o.Endpoint, o.Region, o.AccessKey, o.SecretKey = cloudtest.Bucket, server.URL, cloudtest.Region, cloudtest.Writer, cloudtest.Secret
	}
	dir = path.Join(dir, fmt.Sprintf("%d-%s", os.Getpid(), strings.ReplaceAll(b.Name(), "/", "-")))
	open := func(w *wire) storage.Store {
		own := o
		own.Transport = w
		st, err := s3.New(bucket, dir, own)
		if err != nil {
			b.Fatal(err)
		}
		return retry.New(st, retry.Config{})
	}
	w := newWire(0)
	st := open(w)
	b.Cleanup(func() {
		defer w.base.CloseIdleConnections()
		for _, p := range paths {
			if err := st.Delete(context.Background(), p); err != nil {
				b.Error(err)
			}
		}
	})
	for _, p := range paths {
		content, _, err := from.ReadFile(b.Context(), p)
		if err == nil {
			_, err = st.Create(b.Context(), p, content)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return open
}

// oneGET is how long a GET of a small file takes alone, over a connection that is there: the median of nine.
func oneGET(b *testing.B, st storage.Store) time.Duration {
	b.Helper()
	var took []time.Duration
	for range 10 {
		began := time.Now()
		if _, _, err := st.ReadFile(b.Context(), ".hoodie/hoodie.properties"); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	return middle(took[1:])
}

func middle(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkColdQueryOnS3 asks queries, each by a reader that knows nothing yet of the table and has no connection: exact, k = 10, 32
// clusters probed. It reports requests and bytes of one, and its time beside that of one GET. "chain" is the longest chain of requests of
// which each began after the end of the one before: with TIDEMARK_TEST_AWAY, say 20ms, these are the rounds; without, it also has those
// that happened to come later.
func BenchmarkColdQueryOnS3(b *testing.B) {
	away, err := time.ParseDuration(os.Getenv("TIDEMARK_TEST_AWAY"))
	if err != nil && os.Getenv("TIDEMARK_TEST_AWAY") != "" {
		b.Fatal(err)
	}
	for _, c := range []struct{ table, clusters string }{{"mor_basic", "64"}, {"demo_words", "128"}} {
		b.Run(c.table, func(b *testing.B) {
			from := indexed(b, c.table, "embedding", "", "vector.num_clusters", c.clusters, "vector.max_iter", "4", "vector.metric", "cosine")
			g := load(b, from)
			r := search.Request{Vector: make([]float64, g.Dim), K: 10, NProbes: min(32, g.K), Mode: search.ExactRerank}
			r.Vector[0] = 1
			want := mustSearch(b, from, r)
			open := onS3(b, from, from.Paths())
			beside := newWire(away)
			defer beside.base.CloseIdleConnections()
			small := open(beside)
			var queries, gets []time.Duration
			requests, chain, content, sent, received := map[string]int{}, 0, int64(0), int64(0), int64(0)
			for b.Loop() {
				w := newWire(away)
				began := time.Now()
				p := mdt.Inside(open(w))
				a, err := search.NewReader(search.Deps{Place: p, Cache: search.NewCache(0), Freshness: func(ctx context.Context, tab *table.Table, st *mdt.State, index string) (search.Freshness, error) {
					f, err := coverage.Fresh(ctx, p, tab, st, index)
					return search.Freshness{Fresh: f.Fresh, Reason: f.Reason}, err
				}}).Search(b.Context(), r)
				queries = append(queries, time.Since(began))
				w.base.CloseIdleConnections()
				if err != nil || !a.Complete || !a.Fresh {
					b.Fatalf("%+v, %v", a, err)
				}
				same(b, "on S3", a.Results, want.Results)
				w.mu.Lock()
				for k, n := range w.requests {
					requests[k] += n
					requests["requests"] += n
				}
				content, chain = content+w.content, max(chain, w.ended)
				w.mu.Unlock()
				sent, received = sent+w.sent.Load(), received+w.received.Load()
				gets = append(gets, oneGET(b, small))
			}
			for kind, n := range requests {
				b.ReportMetric(float64(n)/float64(b.N), kind+"/query")
			}
			b.ReportMetric(float64(chain), "max-chain")
			b.ReportMetric(float64(content)/float64(b.N), "B-content/query")
			b.ReportMetric(float64(received)/float64(b.N), "B-received/query")
			b.ReportMetric(float64(sent)/float64(b.N), "B-sent/query")
			one := middle(gets)
			b.ReportMetric(0, "ns/op") // has the GETs in it
			b.ReportMetric(float64(one.Microseconds())/1000, "GET-ms")
			b.ReportMetric(float64(middle(queries).Microseconds())/1000, "query-ms")
			b.ReportMetric(float64(middle(queries))/float64(one), "query/GET")
		})
	}
}
