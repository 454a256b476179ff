package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow/go/v17/arrow/ipc"

	"tidemark/internal/arrowx"
	"tidemark/internal/httpapi"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
)

// slow is a store that does not give data files of a partition once it was told so: whoever asks for one waits until its time is up.
type slow struct {
	*mem.Store
	of   atomic.Pointer[string] // a folder; "" for all partitions
	wait atomic.Int64           // how many do
}

func (s *slow) stop(ctx context.Context, name string) error {
	of := s.of.Load()
	if of == nil || *of != path.Dir(name) && (*of != "" || strings.HasPrefix(name, ".hoodie/")) {
		return nil
	}
	s.wait.Add(1)
	defer s.wait.Add(-1)
	<-ctx.Done()
	return ctx.Err()
}

func (s *slow) ReadFile(ctx context.Context, name string) ([]byte, storage.Info, error) {
	if err := s.stop(ctx, name); err != nil {
		return nil, storage.Info{}, err
	}
	return s.Store.ReadFile(ctx, name)
}

func (s *slow) ReadRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	if err := s.stop(ctx, name); err != nil {
		return nil, err
	}
	return s.Store.ReadRange(ctx, name, off, n)
}

// serveSlow follows a table whose store is slow as soon as its index is fresh.
func serveSlow(t *testing.T, fn func(w *world, st *slow)) {
	st := &slow{Store: indexed(t, "mor_basic", "cosine")}
	serveAll(t, httpapi.Config{}, map[string]storage.Store{"basic": st}, func(w *world) { fn(w, st) })
}

// A deadline of a millisecond over HTTP: the rows found so far, which say so, or 504; in each mode and policy, alone and in a batch, in both forms.
func TestSearchInputDeadline(t *testing.T) {
	t.Parallel()
	serveSlow(t, func(w *world, st *slow) {
		for _, c := range []struct {
			of, more string
			want     map[string]string // complete, some, or what the error says
		}{
			{"us", "", map[string]string{"exact_rerank": "some", "approximate": "complete", "brute_force": "no answer before"}},
			{"", "", map[string]string{"exact_rerank": "before any row", "approximate": "complete", "brute_force": "after 0 rows"}},
			{"us", `,"columns":["title"]`, map[string]string{"exact_rerank": "some", "approximate": "some", "brute_force": "no answer before"}},
			{"", `,"columns":["title"]`, map[string]string{"exact_rerank": "before any row", "approximate": "before any row", "brute_force": "after 0 rows"}},
			{".hoodie/metadata/record_index", "", map[string]string{"exact_rerank": "before any row", "approximate": "before any row", "brute_force": "complete"}},
		} {
			st.of.Store(&c.of)
			for mode, want := range c.want {
				for _, policy := range []string{"FAIL", "WARN", "FALLBACK"} {
					for _, ask := range []string{`"vector":` + one, `"vectors":[` + one + `,` + one + `]`} {
						for _, accept := range []string{"application/json", arrowx.ContentType} {
							how := fmt.Sprintf("%s%s: %s, %s, %.10s, %s", c.of, c.more, mode, policy, ask, accept)
							began := time.Now()
							w.Server = httpapi.New(httpapi.Config{Follower: w.f, Rate: 1_000_000}) // nothing is kept of earlier searches
							rec := w.do("POST", "/v1/tables/basic/search?timeout=1ms", `{`+ask+`,"mode":"`+mode+`","policy":"`+policy+`"`+c.more+`}`, "Accept", accept)
							if took := time.Since(began); want != "complete" && took != time.Millisecond {
								t.Errorf("%s: took %v", how, took)
							}
							if want != "some" && want != "complete" {
								v := w.object(rec, http.StatusGatewayTimeout)
								if !strings.Contains(fmt.Sprint(v["error"]), want) || !strings.Contains(fmt.Sprint(v["hint"]), "more time") || v["kind"] != "failed" {
									t.Errorf("%s: got %v", how, v)
								}
								continue
							}
							if rec.Code != http.StatusOK {
								t.Errorf("%s: %d %s", how, rec.Code, rec.Body)
								continue
							}
							for _, a := range answers(t, rec, strings.HasPrefix(ask, `"vectors"`)) {
								if a.Complete != (want == "complete") || a.Complete != (a.Reason == "") || len(a.keys) == 0 || !a.Complete && !strings.Contains(a.Reason, "deadline") {
									t.Errorf("%s: %d rows, complete %v, %q", how, len(a.keys), a.Complete, a.Reason)
								}
							}
						}
					}
				}
			}
		}
	})
}

// The bounds of a timeout: it is a time with a unit, not below 0, given once, in the URL; more than the server waits is what the server waits.
func TestSearchTimeout(t *testing.T) {
	t.Parallel()
	serveSlow(t, func(w *world, st *slow) {
		st.of.Store(new(string))
		const path, body = "/v1/tables/basic/search?timeout=", `{"vector":` + one + `}`
		for _, text := range []string{"1", "x", "-1ms", "1e9h", "99999999h", "1ms&timeout=2ms", "%00"} {
			if v := w.object(w.do("POST", path+text, body), 400); v["where"] != "query timeout" {
				t.Errorf("%s: got %v", text, v)
			}
		}
		if v := w.object(w.do("POST", "/v1/tables/basic/search", `{"vector":`+one+`,"timeout":"1ms"}`), 400); v["where"] != "body timeout" || !strings.Contains(fmt.Sprint(v["hint"]), "?timeout=") {
			t.Errorf("in the body: got %v", v)
		}
		for text, want := range map[string]time.Duration{"0": 0, "0s": 0, "1ns": 1, "1ms": time.Millisecond, "": 30 * time.Second, "1000000h": 10 * time.Minute} {
			began := time.Now()
			w.object(w.do("POST", path+text, body), 504)
			if took := time.Since(began); took != want {
				t.Errorf("%q: took %v", text, took)
			}
		}
	})
}

// A client that has gone ends its search and makes room for others; who comes while all places are taken is told so when its time is up.
func TestSearchClientGone(t *testing.T) {
	t.Parallel()
	serveSlow(t, func(w *world, st *slow) {
		st.of.Store(new(string))
		ctx, gone := context.WithCancel(w.t.Context())
		var clients sync.WaitGroup
		for range 40 {
			clients.Go(func() {
				r := httptest.NewRequest("POST", "/v1/tables/basic/search", strings.NewReader(`{"vector":`+one+`}`)).WithContext(ctx)
				r.RemoteAddr, r.Host = "127.0.0.1:5000", "127.0.0.1:7427"
				rec := httptest.NewRecorder()
				w.ServeHTTP(rec, r)
				if rec.Code != http.StatusServiceUnavailable {
					t.Errorf("who has gone gets %d %s", rec.Code, rec.Body)
				}
			})
		}
		synctest.Wait()
		if n := st.wait.Load(); n < 16 {
			t.Errorf("%d reads wait", n)
		}
		rec := w.do("POST", "/v1/tables/basic/search?timeout=1ms", `{"vector":`+one+`}`)
		if v := w.object(rec, 503); !strings.Contains(fmt.Sprint(v["error"]), "16 searches") || v["kind"] != "failed" || rec.Header().Get("Retry-After") == "" {
			t.Errorf("got %v", v)
		}
		gone()
		clients.Wait()
		if n := st.wait.Load(); n != 0 {
			t.Errorf("%d reads go on for nobody", n)
		}
		st.of.Store(nil)
		w.object(w.do("POST", "/v1/tables/basic/search?timeout=1ms", `{"vector":`+one+`}`), 200)
	})
}

// Bodies that are no query: 400, with the part that is wrong, and what is taken.
func TestSearchBodies(t *testing.T) {
	t.Parallel()
	st := indexed(t, "mor_basic", "cosine")
	serveAll(t, httpapi.Config{BodyLimit: 1 << 20}, map[string]storage.Store{"basic": st}, func(w *world) {
		const path = "/v1/tables/basic/search"
		for body, where := range map[string]string{
			``: "body", ` `: "body", `null`: "body", `[]`: "body", `"x"`: "body", `1`: "body", `{`: "body", `{"key":"k0001"`: "body", `{"key":"k0001"} {}`: "body", `{"key":"k0001"}]`: "body", `key=k0001&k=3`: "body",
			"\x1f\x8b\x08":                                        "body",
			`{"key":1}`:                                           "body key",
			`{"key":["k0001"]}`:                                   "body key",
			`{"vector":1}`:                                        "body vector",
			`{"vector":"[1,2]"}`:                                  "body vector",
			`{"vector":{"0":1}}`:                                  "body vector",
			`{"vector":[[1]]}`:                                    "body vector",
			`{"vector":[true]}`:                                   "body vector",
			`{"vector":[-1e400]}`:                                 "body vector",
			`{"vectors":[1]}`:                                     "body vectors",
			`{"vectors":[["1"]]}`:                                 "body vectors",
			`{"vectors":[[[1]]]}`:                                 "body vectors",
			`{"vectors":[[null]]}`:                                "body vectors",
			`{"vectors":{}}`:                                      "body vectors",
			`{"key":"a","k":"3"}`:                                 "body k",
			`{"key":"a","k":1.5}`:                                 "body k",
			`{"key":"a","k":1e400}`:                               "body k",
			`{"key":"a","k":99999999999999999999}`:                "body k",
			`{"key":"a","k":true}`:                                "body k",
			`{"key":"a","k":[1]}`:                                 "body k",
			`{"key":"a","nprobes":1e3}`:                           "body nprobes",
			`{"key":"a","nprobes":"all"}`:                         "body nprobes",
			`{"key":"a","mode":1}`:                                "body mode",
			`{"key":"a","policy":null,"mode":[]}`:                 "body mode",
			`{"key":"a","partitions":"eu"}`:                       "body partitions",
			`{"key":"a","partitions":[1]}`:                        "body partitions",
			`{"key":"a","columns":"title"}`:                       "body columns",
			`{"key":"a","columns":[["title"]]}`:                   "body columns",
			`{"key":"a","limit":3}`:                               "body limit",
			`{"key":"a","":3}`:                                    "body ",
			`{"query":{"key":"a"}}`:                               "body query",
			strings.Repeat(`{"vectors":[`, 20_000):                "body",
			`{"key":"a","k":` + strings.Repeat("1", 20_000) + `}`: "body k",
			strings.Repeat("1", 20_000):                           "body",
			`{"` + strings.Repeat("é", 20_000) + `":1}`:           "body",
			`{"vector":` + strings.Repeat(`[`, 200_000):           "body",
		} {
			rec := w.do("POST", path, body)
			v := w.object(rec, 400)
			if v["where"] != where && !(where == "body" && strings.HasPrefix(fmt.Sprint(v["where"]), "body")) || v["kind"] != "usage" || lacks(v) || strings.Contains(rec.Body.String(), "Go ") || rec.Body.Len() > 1000 {
				t.Errorf("%.60q: got %.600s", body, rec.Body)
			}
		}
		// A wide body is refused, whatever comes of it; one compressed, or of a coding nobody knows, too.
		for _, body := range []string{`{"vector":[` + strings.Repeat("1,", 1<<19) + `1]}`, `{"key":"a"}` + strings.Repeat(" ", 1<<20), `{"columns":["` + strings.Repeat("x", 1<<20) + `"]}`} {
			if v := w.object(w.do("POST", path, body), 413); !strings.Contains(fmt.Sprint(v["hint"]), "body_limit") {
				t.Errorf("got %v", v)
			}
		}
		for _, coding := range []string{"gzip", "br", "gzip, identity"} {
			if v := w.object(w.do("POST", path, `{"key":"k0001"}`, "Content-Encoding", coding), 415); v["where"] != "header Content-Encoding" || v["kind"] != "usage" {
				t.Errorf("%s: got %v", coding, v)
			}
		}
		// What a body is called does not matter: curl calls all a form.
		for _, media := range []string{"", "application/json", "application/x-www-form-urlencoded", "text/plain; charset=utf-8", "multipart/form-data; boundary=x"} {
			w.object(w.do("POST", path, `{"key":"k0001","policy":"warn"}`, "Content-Type", media), 200)
		}
		// Many names of columns and partitions are no way to memory.
		names := strings.Repeat(`"title",`, 100_000) + `"title"`
		w.object(w.do("POST", path, `{"key":"k0001","columns":[`+names+`]}`), 400)
		w.object(w.do("POST", path, `{"key":"k0001","partitions":[`+names+`]}`), 400)
	})
}

// The form of an answer follows Accept; who takes none that there is gets 406. An error is JSON for everyone.
func TestSearchAccept(t *testing.T) {
	t.Parallel()
	serveAll(t, httpapi.Config{}, map[string]storage.Store{"basic": indexed(t, "mor_basic", "cosine"), "emptied": indexed(t, "emptied_mor", "cosine")}, func(w *world) {
		const arrow, text = arrowx.ContentType, "application/json; charset=utf-8"
		for accept, want := range map[string]string{
			"": text, "*/*": text, "application/json": text, "application/*": text, "text/html, */*;q=0.1": text, "APPLICATION/JSON": text, "application/json;charset=utf-8": text,
			arrow: arrow, arrow + ", */*": arrow, "application/json;q=0.5, " + arrow: arrow, strings.ToUpper(arrow): arrow, arrow + ";q=0.1": arrow,
			arrow + ";q=0.5, application/json": text, arrow + ";q=0, */*": text, "*/*;q=x": text, "*/*;q=NaN": text, "*/*;q=-1": text, "*/*;q=2, " + arrow + ";q=0.9": text, "*/*;q=0.5, " + arrow + ";q=Inf": arrow,
			"text/csv": "", "application/vnd.apache.arrow.file": "", arrow + ";q=0": "", "application/json;q=0": "", "*/*;q=0": "", "x": "", ";": "", "application/json;q=0, text/*": "",
		} {
			rec := w.do("POST", "/v1/tables/basic/search", `{"key":"k0001"}`, "Accept", accept)
			if want == "" {
				if v := w.object(rec, 406); v["where"] != "header Accept" || !strings.Contains(fmt.Sprint(v["hint"]), arrow) {
					t.Errorf("%q: got %v", accept, v)
				}
				continue
			}
			if rec.Code != 200 || rec.Header().Get("Content-Type") != want {
				t.Errorf("%q: %d, %s", accept, rec.Code, rec.Header().Get("Content-Type"))
			}
			bad := w.do("POST", "/v1/tables/basic/search", `{"key":"nobody"}`, "Accept", accept)
			w.object(bad, 404)
			if bad.Header().Get("Content-Type") != text {
				t.Errorf("%q: an error is %s", accept, bad.Header().Get("Content-Type"))
			}
		}
		// A stream without rows has its schema, the further columns too.
		rec := w.do("POST", "/v1/tables/emptied/search", `{"vectors":[`+one+`,`+one+`],"columns":["title","price"]}`, "Accept", arrow)
		stream, err := ipc.NewReader(rec.Body)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Release()
		names := []string{"query", "rank", "key", "partition", "distance", "row.title", "row.price"}
		for i, f := range stream.Schema().Fields() {
			if len(stream.Schema().Fields()) != len(names) || f.Name != names[i] {
				t.Errorf("schema %s", stream.Schema())
			}
		}
		md := stream.Schema().Metadata()
		if n, _ := md.GetValue("queries"); n != "2" || stream.Next() || stream.Err() != nil {
			t.Errorf("queries %q, %v", n, stream.Err())
		}
	})
}

// Answers of a batch are in the order of its queries.
func TestSearchOrderOfBatch(t *testing.T) {
	t.Parallel()
	serveAll(t, httpapi.Config{}, map[string]storage.Store{"l2": indexed(t, "mor_basic", "l2")}, func(w *world) {
		var queries, want []string
		for i := range 50 {
			v := fmt.Sprintf("[%d,0,%d,0,0,1,0,%d]", i%7-3, i%5-2, i%3-1)
			queries = append(queries, v)
			a := answers(t, w.do("POST", "/v1/tables/l2/search", `{"vector":`+v+`,"k":3}`), false)
			want = append(want, strings.Join(a[0].keys, " "))
		}
		for _, accept := range []string{"", arrowx.ContentType} {
			for i, a := range answers(t, w.do("POST", "/v1/tables/l2/search", `{"vectors":[`+strings.Join(queries, ",")+`],"k":3}`, "Accept", accept), true) {
				if got := strings.Join(a.keys, " "); got != want[i] {
					t.Errorf("%s: query %d: got %s, want %s", accept, i, got, want[i])
				}
			}
		}
	})
}
