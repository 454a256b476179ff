package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/indexer/follow"
	"tidemark/internal/httpapi"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/sink"
	"tidemark/timeline"
)

// world is a followed table behind a server, in a bubble.
type world struct {
	*httpapi.Server
	t    *testing.T
	st   *mem.Store
	held map[string][]byte
	last timeline.Instant // the newest commit, which has not come yet
	f    *follow.Follower
}

// serve follows a recorded table at /data/tables/cow_cb, all but its newest commit, and one more that is not there.
func serve(t *testing.T, cfg httpapi.Config, fn func(w *world)) {
	st, err := mem.FromDir("t", testkit.Table(t, "mor_basic"))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{st: st, held: map[string][]byte{}}
	w.prepare(t)
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		time.Sleep(time.Until(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)))
		f, err := follow.New(follow.Config{Open: func(_ context.Context, c follow.TableConfig) (mdt.Place, error) {
			if c.Name != "orders" {
				return mdt.Place{}, &storage.Error{Op: "open", Path: c.URL, Err: storage.ErrNotFound}
			}
			return mdt.Inside(st), nil
		}}, []follow.TableConfig{{Name: "orders", URL: "/data/tables/cow_cb"}, {URL: "/data/<b>none</b>"}})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Follower, w.f = f, f
		w.Server = httpapi.New(cfg)
		if r := w.get("/readyz"); r.Code != http.StatusServiceUnavailable {
			t.Errorf("ready before the start: %d", r.Code)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		synctest.Wait()
		fn(w)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (w *world) prepare(t *testing.T) {
	p := mdt.Inside(w.st)
	tb, err := table.Open(t.Context(), w.st)
	if err != nil {
		t.Fatal(err)
	}
	c, err := indexer.OpenCommitter(t.Context(), p, indexer.CommitterOptions{Sink: sink.Config{Create: true}})
	if err != nil {
		t.Fatal(err)
	}
	options, err := generation.ParseOptions(map[string]string{"vector.num_clusters": "3"})
	if err != nil {
		t.Fatal(err)
	}
	at, err := tb.EarliestReadable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := generation.Create(t.Context(), tb, c, generation.CreateRequest{Column: "embedding", AsOf: at, Options: options, Place: p}); err != nil {
		t.Fatal(err)
	}
	writes := tb.Timeline.Writes()
	w.last = writes[len(writes)-1]
	for _, f := range w.st.Paths() {
		if path.Dir(f) == ".hoodie/timeline" && strings.HasPrefix(path.Base(f), w.last.Requested) {
			b, _, err := w.st.ReadFile(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			w.held[f] = b
			if err := w.st.Delete(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// commit lets the newest commit happen.
func (w *world) commit() {
	for f, b := range w.held {
		if _, err := w.st.Create(w.t.Context(), f, b); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) do(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.RemoteAddr, r.Host = "127.0.0.1:5000", "127.0.0.1:7427"
	for i := 0; i+1 < len(headers); i += 2 {
		switch headers[i] {
		case "from":
			r.RemoteAddr = headers[i+1]
		case "host":
			r.Host = headers[i+1]
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	out := httptest.NewRecorder()
	w.ServeHTTP(out, r)
	return out
}

func (w *world) get(target string) *httptest.ResponseRecorder {
	if w.t != nil {
		w.t.Helper()
	}
	return w.do("GET", target, "")
}

// lacks says whether an error leaves out what happened, what to do, or of what kind it is.
func lacks(v map[string]any) bool {
	for _, key := range []string{"error", "hint", "kind"} {
		if s, _ := v[key].(string); s == "" {
			return true
		}
	}
	return false
}

// object reads a JSON answer of a code.
func (w *world) object(r *httptest.ResponseRecorder, code int) map[string]any {
	w.t.Helper()
	var v map[string]any
	if err := json.Unmarshal(r.Body.Bytes(), &v); err != nil || r.Code != code {
		w.t.Errorf("got %d %q (%v), want %d", r.Code, r.Body, err, code)
	}
	if _, is := v["error"]; code >= 400 && (is || code != http.StatusGatewayTimeout) && lacks(v) { // a wait that is not over has no error
		w.t.Errorf("an error without a hint: %v", v)
	}
	return v
}

// callback is the body of a callback for the newest commit.
func (w *world) callback(base string) string {
	return fmt.Sprintf(`{"commitTime":%q,"tableName":"cow_cb","basePath":%q,"hoodieWriteStat":[{"a":[{}]}],"commitActionType":{"empty":false,"present":true}}`, w.last.Requested, base)
}

func TestStates(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{}, func(w *world) {
		for target, code := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 404, "/v1/tables": 200, "/v1/tables/orders": 200, "/v1/none": 404,
			"/v1/tables/other/status": 404, "/v1/tables/orders/markers?last=x": 400, "/v1/tables/orders/wait?covers=x": 400, "/v1/tables/orders/wait?covers=20261130021333638&timeout=x": 400,
			"/v1/tables/orders/markers?index=none": 404, "/v1/tables/orders/pause": 405, "/v1/callback": 405} {
			w.object(w.get(target), code)
		}
		for _, name := range []string{"orders", url.PathEscape("/data/tables/cow_cb"), url.PathEscape("file:///data/tables/cow_cb/")} {
			v := w.object(w.get("/v1/tables/"+name+"/status"), 200)
			if v["fresh"] != true || v["state"] != "fresh" || len(v["indexes"].([]any)) != 1 {
				t.Errorf("%s: %v", name, v)
			}
		}
		all := w.object(w.get("/v1/tables"), 200)["tables"].([]any)
		if len(all) != 2 || !strings.Contains(fmt.Sprint(all[0]), "does not exist yet") {
			t.Errorf("tables: %v", all)
		}
		if m := w.object(w.get("/v1/tables/orders/markers?last=2"), 200)["markers"].([]any); len(m) != 2 {
			t.Errorf("markers: %v", m)
		}
	})
}

// A callback is answered at once, and wakes the loop; with wait=covered it is answered after coverage.
func TestCallback(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{}, func(w *world) {
		began := time.Now()
		v := w.object(w.do("POST", "/v1/callback", w.callback("file:///data/tables/cow_cb")), 200)
		if v["accepted"] != true || v["table"] != "orders" || v["instant"] != w.last.Requested || time.Since(began) != 0 {
			t.Errorf("got %v after %v", v, time.Since(began))
		}
		// The commit is not there: a callback is not believed.
		v = w.object(w.do("POST", "/v1/callback?wait=covered&timeout=3s", w.callback("/data/tables/cow_cb")), http.StatusGatewayTimeout)
		if v["covered"] != false || time.Since(began) != 3*time.Second {
			t.Errorf("got %v after %v", v, time.Since(began))
		}
		w.commit()
		began = time.Now()
		v = w.object(w.do("POST", "/v1/callback?wait=covered", w.callback("/data/tables/cow_cb")), 200)
		if v["covered"] != true || time.Since(began) > time.Second {
			t.Errorf("got %v after %v", v, time.Since(began))
		}
		v = w.object(w.get("/v1/tables/orders/wait?covers="+w.last.Completed), 200)
		if v["covered"] != true {
			t.Errorf("got %v", v)
		}
		v = w.object(w.do("POST", "/v1/callback", w.callback("/data/tables/unknown")), 404)
		if !strings.Contains(v["hint"].(string), "aliases") {
			t.Errorf("got %v", v)
		}
		if n := w.object(w.get("/v1/tables"), 200)["unknown_hints"]; n != 1.0 {
			t.Errorf("unknown hints: %v", n)
		}
		if n := w.f.Hints(httpapi.SourceName); n.Known != 3 || n.Unknown != 1 {
			t.Errorf("hints: %+v", n)
		}
	})
}

// Without a time to wait it is looked once; where waiting leads nowhere the answer comes at once.
func TestWaitAtOnce(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{}, func(w *world) {
		w.commit()
		w.object(w.get("/v1/tables/orders/wait?covers="+w.last.Requested), 200)
		began := time.Now()
		for _, timeout := range []string{"0", "0s", "1ns"} {
			if v := w.object(w.get("/v1/tables/orders/wait?timeout="+timeout+"&covers="+w.last.Requested), 200); v["covered"] != true {
				t.Errorf("timeout=%s: %v", timeout, v)
			}
			if v := w.object(w.get("/v1/tables/orders/wait?timeout="+timeout+"&covers=20300101000000000"), 504); v["reason"] != "not on the timeline" {
				t.Errorf("timeout=%s: %v", timeout, v)
			}
		}
		w.object(w.get("/v1/tables/orders/wait?index=none&covers="+w.last.Requested), 404)
		w.object(w.get("/v1/tables/orders/wait?covers=20000101000000000"), 404)
		w.object(w.get("/v1/tables/"+url.PathEscape("/data/<b>none</b>")+"/wait?covers="+w.last.Requested), 404)
		w.object(w.do("POST", "/v1/callback?wait=covered&index=none", w.callback("/data/tables/cow_cb")), 404)
		w.object(w.do("POST", "/v1/callback?wait=covered", w.callback("/data/<b>none</b>")), 404)
		if took := time.Since(began); took >= time.Second {
			t.Errorf("the answers took %v", took)
		}
	})
}

// What real writers sent is understood.
func TestRecordedCallbacks(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{Secret: "secret-key"}, func(w *world) {
		for _, name := range []string{"http_upsert", "http_sql_insert", "http_delete_partition", "http_empty_upsert"} {
			var rec struct {
				Calls []struct {
					Request struct {
						Headers [][2]string
						Body    string
					}
				}
			}
			if err := json.Unmarshal(testkit.File(t, filepath.Join("callbacks", name+".json")), &rec); err != nil {
				t.Fatal(err)
			}
			if len(rec.Calls) == 0 {
				t.Errorf("%s: no call", name)
			}
			for _, c := range rec.Calls {
				var headers []string
				for _, h := range c.Request.Headers {
					headers = append(headers, h[0], h[1])
				}
				headers = append(headers, "HUDI-CALLBACK-KEY", "secret-key", "from", "10.1.2.3:400", "host", "tidemark:7427")
				r := w.do("POST", "/v1/callback", c.Request.Body, headers...)
				if r.Code != http.StatusOK && !strings.Contains(r.Body.String(), "is followed") {
					t.Errorf("%s: %d %s", name, r.Code, r.Body)
				}
			}
		}
	})
}

func TestBadCallbacks(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{BodyLimit: 2000}, func(w *world) {
		for body, code := range map[string]int{
			"": 400, "null": 400, "[]": 400, "{": 400, `{"commitTime"`: 400, `{"commitTime":1}`: 400, `{"commitTime":"20261130021333638"}`: 400,
			`{"basePath":"/data/tables/cow_cb"}`: 400, `{"commitTime":"x","basePath":"/data/tables/cow_cb"}`: 400,
			`{"commitTime":"20261130021333638","basePath":{"a":"b"}}`: 400,
			w.callback("/data/tables/cow_cb") + "{}":                  400, w.callback("/data/tables/cow_cb") + "x": 400,
			strings.Repeat("[", 1900): 400, `{"x":` + strings.Repeat("[", 1900): 400,
			`{"x":"` + strings.Repeat("y", 3000) + `"}`: 413,
			"\xff\xfe": 400,
		} {
			w.object(w.do("POST", "/v1/callback", body), code)
		}
		w.object(w.do("POST", "/v1/callback?wait=soon", w.callback("/data/tables/cow_cb")), 400)
		w.object(w.do("POST", "/v1/callback?wait=covered&timeout=-1s", w.callback("/data/tables/cow_cb")), 400)
	})
}

// An answer to a malformed request says what is wrong, where, and what to do instead; and each callback that is no hint is counted.
func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{BodyLimit: 2000}, func(w *world) {
		good := w.callback("/data/tables/cow_cb")
		for _, tc := range []struct {
			method, target, body string
			code                 int
			where, text          string
		}{
			{"POST", "/v1/callback", "", 400, "body", "the body is empty"},
			{"POST", "/v1/callback", "[1]", 400, "body", "no JSON object"},
			{"POST", "/v1/callback", good[:len(good)-5], 400, "body commitActionType", "cut after"},
			{"POST", "/v1/callback", `{"commitTime":"20261130021333638","tableName":"t"}`, 400, "body basePath", "basePath is missing"},
			{"POST", "/v1/callback", `{"basePath":"/data/t","tableName":"t"}`, 400, "body commitTime", "commitTime is missing"},
			{"POST", "/v1/callback", `{"basePath":"/data/t","commitTime":"today"}`, 400, "body commitTime", `"today" is no instant`},
			{"POST", "/v1/callback", `{"basePath":{"a":1},"commitTime":"20261130021333638"}`, 400, "body basePath", "must be a text, not an object"},
			{"POST", "/v1/callback", `{"basePath":null,"commitTime":"20261130021333638"}`, 400, "body basePath", "must be a text, not null"},
			{"POST", "/v1/callback", `{"basePath":"/data/t","commitTime":20261130021333638}`, 400, "body commitTime", "must be a text"},
			{"POST", "/v1/callback?waits=covered", good, 400, "query waits", `unknown key "waits"`},
			{"POST", "/v1/callback?wait=soon", good, 400, "query wait", "not known"},
			{"POST", "/v1/callback?wait=covered&timeout=5", good, 400, "query timeout", "no duration"},
			{"POST", "/v1/callback?timeout=5s", good, 400, "query wait", "without wait=covered"},
			{"POST", "/v1/callback?wait=%zz", good, 400, "query", "invalid URL escape"},
			{"GET", "/v1/tables/orders/wait", "", 400, "query covers", "covers is missing"},
			{"GET", "/v1/tables/orders/wait?covers=yesterday", "", 400, "query covers", `"yesterday" is no instant`},
			{"GET", "/v1/tables/orders/wait?covers=20261130021333638&timeout=-1s", "", 400, "query timeout", "no duration"},
			{"GET", "/v1/tables/orders/wait?covers=20261130021333638&covers=20261130021333639", "", 400, "query covers", "given 2 times"},
			{"GET", "/v1/tables/orders/markers?lats=3", "", 400, "query lats", "unknown key"},
			{"GET", "/v1/tables/orders/markers?last=-1", "", 400, "query last", "no number"},
			{"GET", "/v1/tables?x=1", "", 400, "query x", "unknown key"},
			{"POST", "/v1/tables/orders/pause?until=tomorrow", "", 400, "query until", "unknown key"},
			{"POST", "/v1/tables/orders/retry?instant=x", "", 400, "query instant", `"x" is no instant`},
			{"POST", "/v1/tables/orders/skip?reason=x", "", 400, "query instant", "instant is missing"},
			{"POST", "/v1/tables/orders/skip?instant=x&reason=x", "", 400, "query instant", "no instant"},
			{"POST", "/v1/tables/orders/skip?instant=20261130021333638", "", 400, "query reason", "a reason of 1 to"},
			{"POST", "/v1/tables/orders/skip?instant=20261130021333638&reason=" + strings.Repeat("x", 1001), "", 400, "query reason", "a reason of 1 to"},
			{"POST", "/v1/tables/orders/search?time=1s", `{"key":"k0001"}`, 400, "query time", "unknown key"},
			{"DELETE", "/v1/tables/orders", "", 405, "", "DELETE is not taken"},
			{"GET", "/v1/tables/orders/skip", "", 405, "", "GET is not taken"},
			{"PUT", "/healthz", "", 405, "", "PUT is not taken"},
		} {
			r := w.do(tc.method, tc.target, tc.body)
			v := w.object(r, tc.code)
			if where, _ := v["where"].(string); where != tc.where || !strings.Contains(fmt.Sprint(v["error"]), tc.text) {
				t.Errorf("%s %s %s: %v", tc.method, tc.target, tc.body, v)
			}
			if tc.code == 405 && r.Header().Get("Allow") == "" {
				t.Errorf("%s %s: no method is named", tc.method, tc.target)
			}
		}
		// A form, as curl sends one unless told otherwise, is a callback's body and an operator's words.
		form := []string{"Content-Type", "application/x-www-form-urlencoded"}
		w.object(w.do("POST", "/v1/callback", good, form...), 200)
		w.object(w.do("POST", "/v1/tables/orders/retry", "instant=20000101000000000", form...), 404)
		w.object(w.do("POST", "/v1/tables/orders/retry", "instnat=20000101000000000", form...), 400)
		w.object(w.do("POST", "/v1/callback", `{"x":"`+strings.Repeat("y", 3000)+`"}`), 413)
		w.object(w.do("POST", "/v1/callback", good, "from", "10.1.2.3:400"), 403)
		want := map[string]int64{"empty": 1, "not_commit": 12, "not_json": 1, "oversized": 1, "refused": 1}
		if got := w.Callbacks(); !maps.Equal(got, want) {
			t.Errorf("callbacks that were no hints: %v, want %v", got, want)
		}
	})
}

func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{}, func(w *world) {
		w.object(w.do("POST", "/v1/tables/orders/pause", "", "from", "10.1.2.3:400"), 403)
		w.object(w.do("POST", "/v1/tables/orders/pause", "", "host", "rebound.example"), 403)
		w.object(w.do("POST", "/v1/tables/orders/pause", "", "Origin", "https://other.example", "Sec-Fetch-Site", "cross-site"), 403)
		w.object(w.do("POST", "/v1/tables/orders/search", `{"key":"k0001"}`, "from", "10.1.2.3:400"), 403)
		w.object(w.do("GET", "/v1/tables", "", "from", "10.1.2.3:400"), 200)
	})
	serve(t, httpapi.Config{Secret: "hush"}, func(w *world) {
		for _, headers := range [][]string{nil, {"HUDI-CALLBACK-KEY", "hus"}, {"HUDI-CALLBACK-KEY", "hushh"}, {"Authorization", "Bearer no"}, {"Authorization", "hush"}} {
			r := w.do("POST", "/v1/tables/orders/pause", "", headers...)
			w.object(r, 401)
			if r.Header().Get("WWW-Authenticate") == "" {
				t.Error("the answer does not say how to send it")
			}
			if strings.Contains(r.Body.String(), "hush") {
				t.Error("the answer tells the secret")
			}
		}
		for _, headers := range [][]string{{"HUDI-CALLBACK-KEY", "hush"}, {"Authorization", "Bearer hush"}} {
			w.object(w.do("POST", "/v1/tables/orders/pause", "", append(headers, "from", "10.1.2.3:400", "host", "tidemark.example")...), 200)
		}
	})
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{}, func(w *world) {
		if v := w.object(w.do("POST", "/v1/tables/orders/pause", ""), 200); v["paused"] != true {
			t.Errorf("got %v", v)
		}
		w.commit()
		synctest.Wait()
		if v := w.object(w.get("/v1/tables/orders"), 200); v["state"] != "paused" {
			t.Errorf("got %v", v)
		}
		w.object(w.do("POST", "/v1/tables/orders/retry?instant=20000101000000000", ""), 404)
		w.object(w.do("POST", "/v1/tables/orders/skip", ""), 400)
		w.object(w.do("POST", "/v1/tables/orders/skip?instant="+w.last.Requested, ""), 400)
		if v := w.object(w.do("POST", "/v1/tables/orders/skip?instant="+w.last.Requested+"&reason=lost", ""), 200); len(v["skipped"].([]any)) != 1 {
			t.Errorf("got %v", v)
		}
		w.object(w.do("POST", "/v1/tables/orders/retry", ""), 200)
		w.object(w.do("POST", "/v1/tables/orders/resume", ""), 200)
		synctest.Wait()
		if v := w.object(w.get("/v1/tables/orders/wait?covers="+w.last.Requested), 200); v["covered"] != true {
			t.Errorf("got %v", v)
		}
		w.object(w.do("POST", "/v1/tables/"+url.PathEscape("/data/<b>none</b>")+"/pause", ""), 404)
	})
}

func TestSearch(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{}, func(w *world) {
		v := w.object(w.do("POST", "/v1/tables/orders/search", `{"key":"k0001","k":3,"mode":"exact_rerank"}`), 200)
		if results := v["results"].([]any); len(results) != 3 || results[0].(map[string]any)["key"] != "k0001" {
			t.Errorf("got %v", v)
		}
		for body, code := range map[string]int{"": 400, "{}": 400, `{"key":"k0001","kk":3}`: 400, `{"key":"k0001"}{}`: 400, `{"key":"k0001","k":0}`: 400,
			`{"vector":[null]}`: 400, `{"vector":[1]}`: 400, `{"key":"none"}`: 404, `{"key":"k0001","index":"none"}`: 404, `{"key":"k0001","mode":"magic"}`: 400} {
			w.object(w.do("POST", "/v1/tables/orders/search", body), code)
		}
	})
}

// A store that does not answer keeps no request for ever.
func TestStoreThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, err := follow.New(follow.Config{Open: func(ctx context.Context, _ follow.TableConfig) (mdt.Place, error) {
			<-ctx.Done()
			return mdt.Place{}, ctx.Err()
		}}, []follow.TableConfig{{Name: "hung", URL: "s3://b/hung"}})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, Server: httpapi.New(httpapi.Config{Follower: f})}
		for _, target := range []string{"GET status", "GET markers", "POST pause", "POST retry"} {
			method, name, _ := strings.Cut(target, " ")
			began := time.Now()
			v := w.object(w.do(method, "/v1/tables/hung/"+name, ""), http.StatusGatewayTimeout)
			if !strings.Contains(fmt.Sprint(v["hint"]), "/v1/tables") || v["kind"] != "failed" || time.Since(began) != 30*time.Second {
				t.Errorf("%s after %v: %v", target, time.Since(began), v)
			}
		}
	})
}

func TestRate(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{Rate: 2}, func(w *world) {
		ok := 0
		for range 10 {
			if w.get("/v1/tables").Code == 200 {
				ok++
			}
		}
		r := w.get("/v1/tables")
		if v := w.object(r, http.StatusTooManyRequests); v["kind"] != "failed" {
			t.Errorf("beyond the rate: got %v", v)
		}
		if ok != 4 || r.Header().Get("Retry-After") == "" || w.get("/healthz").Code != 200 {
			t.Errorf("%d of 10 were served", ok)
		}
		time.Sleep(time.Second)
		w.object(w.get("/v1/tables"), 200)
	})
}

// The page shows every table, escapes what it did not make itself, and needs nothing from elsewhere.
func TestPage(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{}, func(w *world) {
		w.commit()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		r := w.get("/")
		text := r.Body.String()
		for _, want := range []string{"orders", "&lt;b&gt;none&lt;/b&gt;", "fresh", "does not exist yet", "<polyline points=", w.last.Requested, "updated", "name=\"viewport\""} {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
		if strings.Contains(text, "<b>none") || strings.Contains(text, "http://") || strings.Contains(text, "https://") || strings.Contains(text, "<script") {
			t.Errorf("the page has what it must not have:\n%s", text)
		}
		if r.Code != 200 || !strings.Contains(r.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%d, %v", r.Code, r.Header())
		}
	})
}
