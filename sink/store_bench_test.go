package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/cloudtest"
	"tidemark/internal/storage/object"
	"tidemark/internal/storage/retry"
	"tidemark/internal/storage/s3"
	"tidemark/timeline"
)

// wire counts requests and bytes on their way, for a store over HTTP.
type wire struct {
	base http.RoundTripper

	mu       sync.Mutex // guards the fields below
	requests map[string]int
	sent     int64
	received int64
}

func (c *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	kind := r.Method
	if r.URL.Query().Has("list-type") {
		kind = "LIST"
	}
	c.mu.Lock()
	c.requests[kind]++
	c.sent += max(r.ContentLength, 0)
	c.mu.Unlock()
	resp, err := c.base.RoundTrip(r)
	if err == nil {
		resp.Body = &countedBody{resp.Body, c}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser
	of *wire
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.of.mu.Lock()
	b.of.received += int64(n)
	b.of.mu.Unlock()
	return n, err
}

func (c *wire) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests, c.sent, c.received = map[string]int{}, 0, 0
}

// puts notes the writes of a store, to make the same ones again.
type puts struct {
	storage.Store
	made []put
}

type put struct {
	size    int
	replace bool
}

func (p *puts) Broad() bool { return storage.IsBroad(p.Store) }

func (p *puts) Create(ctx context.Context, path string, data []byte) (storage.Info, error) {
	p.made = append(p.made, put{len(data), false})
	return p.Store.Create(ctx, path, data)
}

func (p *puts) Replace(ctx context.Context, path string, data []byte, tag string) (storage.Info, error) {
	p.made = append(p.made, put{len(data), true})
	return p.Store.Replace(ctx, path, data, tag)
}

// onS3 is a recorded table in a bucket: on the server that TIDEMARK_TEST_S3 and the SDK's variables name, else on one in this process.
func onS3(b *testing.B, name string) (storage.Store, *wire) {
	b.Helper()
	c := &wire{base: object.Transport()}
	c.reset()
	o := s3.Options{Transport: c}
	bucket, dir, _ := strings.Cut(strings.TrimPrefix(os.Getenv("TIDEMARK_TEST_S3"), "s3://"), "/")
	if bucket == "" {
		server := cloudtest.S3(b)
		bucket, o.Endpoint, o.Region, o.AccessKey, o.SecretKey = cloudtest.Bucket, server.URL, cloudtest.Region, cloudtest.Writer, cloudtest.Secret
	}
	st, err := s3.New(bucket, fmt.Sprintf("%s/%d-%s", dir, os.Getpid(), strings.ReplaceAll(b.Name(), "/", "-")), o)
	if err != nil {
		b.Fatal(err)
	}
	from := table(b, name)
	for _, f := range from.Paths() {
		content, _, err := from.ReadFile(b.Context(), f)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := st.Create(b.Context(), f, content); err != nil && !strings.Contains(err.Error(), "exists") {
			b.Fatal(err)
		}
	}
	return retry.New(st, retry.Config{}), c
}

// cover is a commit that covers the n-th of some made-up instants by one log file of so many records.
func cover(n, records int) Batch {
	requested := fmt.Sprintf("20270101%09d", 2*n)
	i := timeline.Instant{Requested: requested, Completed: fmt.Sprintf("20270101%09d", 2*n+1), Action: timeline.DeltaCommit}
	b := follow(idx, i)
	b.NewestData = timeline.Instant{}
	payload := strings.Repeat("x", 134) // a posting of 128 dimensions, 4 bits each
	b.Build = func(string, string) ([]FileRecords, error) {
		f := FileRecords{Index: idx, Records: make([]Record, records)}
		for k := range f.Records {
			f.Records[k] = record(fmt.Sprintf("%08d-%s", k, requested), payload)
		}
		return []FileRecords{f}, nil
	}
	return b
}

// BenchmarkCommitOnS3 makes commits of one log file in one file group, with 8 and more files of the index before them, and reports
// requests and bytes of one, and its time beside that of the same puts alone.
func BenchmarkCommitOnS3(b *testing.B) {
	for _, records := range []int{1, 1_000, 100_000} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			st, count := onS3(b, "cow_basic")
			seen := &puts{Store: st}
			s, err := Open(b.Context(), mdt.Inside(seen), Config{Schema: testSchema, Create: true, Renew: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Acquire(b.Context()); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Release(context.Background()) }()
			n := 0
			commit := func(batch Batch) {
				_, err := s.Commit(b.Context(), batch)
				for wait := (*WaitError)(nil); errors.As(err, &wait); _, err = s.Commit(b.Context(), batch) {
					<-time.After(time.Second) // the table was copied just now: its files are too young for many ids
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			commit(bootstrap(idx))
			commit(activate(idx))
			for ; n < 6; n++ {
				commit(cover(n, 1))
			}
			var whole, bare []time.Duration
			var total wire
			total.requests = map[string]int{}
			for b.Loop() {
				seen.made = nil
				count.reset()
				batch := cover(n, records)
				n++
				began := time.Now()
				commit(batch)
				whole = append(whole, time.Since(began))
				for k, v := range count.requests {
					total.requests[k] += v
				}
				total.sent += count.sent
				total.received += count.received
				bare = append(bare, again(b, st, seen.made, n))
			}
			for k, v := range total.requests {
				b.ReportMetric(float64(v)/float64(b.N), k+"/commit")
			}
			b.ReportMetric(float64(total.sent)/float64(b.N), "B-sent/commit")
			b.ReportMetric(float64(total.received)/float64(b.N), "B-received/commit")
			for _, q := range []struct {
				name string
				of   float64
			}{{"p50", 0.5}, {"p99", 0.99}} {
				w, p := quantile(whole, q.of), quantile(bare, q.of)
				b.ReportMetric(float64(w.Microseconds())/1000, q.name+"-ms")
				b.ReportMetric(float64(w)/float64(p), q.name+"/puts")
			}
		})
	}
}

// again makes the same puts on other names, one after the other, and returns how long they took.
func again(b *testing.B, st storage.Store, made []put, n int) time.Duration {
	b.Helper()
	contents := make([][]byte, len(made))
	for i, p := range made {
		contents[i] = []byte(strings.Repeat("x", p.size))
	}
	tag, began := "", time.Now()
	for i, p := range made {
		if !p.replace {
			if _, err := st.Create(b.Context(), fmt.Sprintf("bare/%d-%d", n, i), contents[i]); err != nil {
				b.Fatal(err)
			}
			continue
		}
		info, err := st.Replace(b.Context(), fmt.Sprintf("bare/%d-state", n), contents[i], tag)
		if err != nil {
			b.Fatal(err)
		}
		tag = info.Tag
	}
	return time.Since(began)
}

func quantile(all []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
