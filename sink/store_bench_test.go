package sink

import (
	"context"
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
	away time.Duration // is added to each request

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
	<-time.After(c.away)
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

// puts notes the writes of a store, to make the same ones again, and how long each call takes.
type puts struct {
	storage.Store

	mu    sync.Mutex // guards the fields below
	made  []put
	calls []timed
}

type put struct {
	size    int
	replace bool
}

// timed is a call: LIST, HEAD, GET or PUT.
type timed struct {
	kind       string
	begin, end time.Time
}

func (p *puts) Broad() bool { return storage.IsBroad(p.Store) }

func (p *puts) note(kind string, begin time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, timed{kind, begin, time.Now()})
}

func (p *puts) write(size int, replace bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made = append(p.made, put{size, replace})
}

func (p *puts) Create(ctx context.Context, path string, data []byte) (storage.Info, error) {
	p.write(len(data), false)
	defer p.note("PUT", time.Now())
	return p.Store.Create(ctx, path, data)
}

func (p *puts) Replace(ctx context.Context, path string, data []byte, tag string) (storage.Info, error) {
	p.write(len(data), true)
	defer p.note("PUT", time.Now())
	return p.Store.Replace(ctx, path, data, tag)
}

func (p *puts) List(ctx context.Context, path string) ([]storage.Info, error) {
	defer p.note("LIST", time.Now())
	return p.Store.List(ctx, path)
}

func (p *puts) Stat(ctx context.Context, path string) (storage.Info, error) {
	defer p.note("HEAD", time.Now())
	return p.Store.Stat(ctx, path)
}

func (p *puts) ReadFile(ctx context.Context, path string) ([]byte, storage.Info, error) {
	defer p.note("GET", time.Now())
	return p.Store.ReadFile(ctx, path)
}

// rounds are what a commit of one log file waits for: calls that are under way together are one.
var rounds = []string{"PUT intent", "PUT log", "look, log read back", "PUT decision", "PUT commit file, look", "PUT state, look"}

// cut adds a commit's times to those of its rounds; what is no call is own work.
func (p *puts) cut(whole time.Duration, into map[string][]time.Duration) {
	slices.SortFunc(p.calls, func(a, b timed) int { return a.begin.Compare(b.begin) })
	var all []timed
	for _, c := range p.calls {
		into["one "+c.kind] = append(into["one "+c.kind], c.end.Sub(c.begin))
		if n := len(all); n > 0 && c.begin.Before(all[n-1].end) {
			if c.end.After(all[n-1].end) {
				all[n-1].end = c.end
			}
			continue
		}
		all = append(all, c)
	}
	if len(all) != len(rounds) {
		return // not such a commit
	}
	for n, c := range all {
		into[rounds[n]] = append(into[rounds[n]], c.end.Sub(c.begin))
		whole -= c.end.Sub(c.begin)
	}
	into["own work"] = append(into["own work"], whole)
}

// onS3 is a recorded table in a bucket: on the server that TIDEMARK_TEST_S3 and the SDK's variables name, else on one in this process. It
// seems as far away as TIDEMARK_TEST_AWAY says.
func onS3(b *testing.B, name string) (storage.Store, *wire) {
	b.Helper()
	c := &wire{base: object.Transport()}
	c.reset()
	c.away, _ = time.ParseDuration(os.Getenv("TIDEMARK_TEST_AWAY"))
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

// activeFiles is how many files the timeline of a metadata table keeps, about: some 25 instants, those of Hudi with three files.
const activeFiles = 60

// BenchmarkCommitOnS3 makes commits of one log file in one file group, with up to ten since the last fold before them, and reports
// requests and bytes of one, its time beside that of the same puts alone, and what it goes on.
func BenchmarkCommitOnS3(b *testing.B) {
	for _, records := range []int{1, 1_000, 100_000} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			st, count := onS3(b, "cow_basic")
			seen := &puts{Store: st}
			s, err := Open(b.Context(), mdt.Inside(seen), Config{Schema: testSchema, Create: true, Renew: time.Hour, Retention: 1})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Acquire(b.Context()); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Release(context.Background()) }()
			n := 0
			commit := func(batch Batch) {
				if _, err := s.Commit(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			<-time.After(youngFile + 2*time.Second) // the table was copied just now: its files are too young for many ids, and a server may tell the time late
			commit(bootstrap(idx))
			commit(activate(idx))
			place := mdt.Inside(st)
			tidy := func() { // what happens after ten commits: a fold, and Hudi's archiver
				if _, err := s.Fold(b.Context(), Fold{}); err != nil {
					b.Fatal(err)
				}
				infos, err := st.List(b.Context(), place.TimelineDir())
				if err != nil {
					b.Fatal(err)
				}
				for _, i := range infos[:max(0, len(infos)-activeFiles)] {
					if err := st.Delete(b.Context(), i.Path); err != nil {
						b.Fatal(err)
					}
				}
			}
			var whole, bare []time.Duration
			var total wire
			total.requests = map[string]int{}
			parts := map[string][]time.Duration{}
			for b.Loop() {
				if n%10 == 0 {
					tidy()
				}
				batch := cover(n, records)
				batch.Seen = sight(b, s) // the pass that plans a batch has looked
				seen.made, seen.calls = nil, nil
				count.reset()
				n++
				began := time.Now()
				commit(batch)
				whole = append(whole, time.Since(began))
				seen.cut(whole[len(whole)-1], parts)
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
			one := quantile(bare, 0.5) / 5
			for _, name := range append(slices.Clone(rounds), "own work", "one LIST", "one HEAD", "one GET") {
				if len(parts[name]) > 0 {
					fmt.Printf("%s: %-22s %6.2f bare puts\n", b.Name(), name, float64(quantile(parts[name], 0.5))/float64(one))
				}
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
