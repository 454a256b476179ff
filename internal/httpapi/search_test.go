package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"tidemark/internal/arrowx"
	"tidemark/internal/httpapi"
	"tidemark/search"
)

// told keeps what searches did.
type told struct {
	mu  sync.Mutex
	all []search.Searched
}

func (o *told) Searched(x search.Searched) {
	o.mu.Lock()
	o.all = append(o.all, x)
	o.mu.Unlock()
}

const (
	one   = `[1,2,3,4,5,6,7,8]`
	other = `[-1,0.5,0.25,1,0,0,2,-3]`
)

// A batch is answered as its queries are one by one, and the observer hears of each request under the table's name.
func TestSearchBatch(t *testing.T) {
	t.Parallel()
	o := &told{}
	serve(t, httpapi.Config{Searches: o, BodyLimit: 1 << 20}, func(w *world) {
		const path = "/v1/tables/orders/search"
		batch := w.object(w.do("POST", path, `{"vectors":[`+one+`,`+other+`],"k":4,"mode":"exact_rerank","policy":"warn"}`), 200)
		answers := batch["answers"].([]any)
		if len(answers) != 2 {
			t.Fatalf("got %v", batch)
		}
		for i, v := range []string{one, other} {
			single := w.object(w.do("POST", path, `{"vector":`+v+`,"k":4,"mode":"exact_rerank","policy":"warn"}`), 200)
			got := answers[i].(map[string]any)
			if fmt.Sprint(got["results"]) != fmt.Sprint(single["results"]) || len(single["results"].([]any)) != 4 {
				t.Errorf("query %d: got %v\nwant %v", i, got["results"], single["results"])
			}
		}
		if len(o.all) != 3 || o.all[0].Table != "orders" || o.all[0].Queries != 2 || o.all[2].Queries != 1 {
			t.Errorf("told of %+v", o.all)
		}
		for body, code := range map[string]int{`{"vectors":[]}`: 400, `{"vectors":[` + one + `],"key":"k0001"}`: 400, `{"vectors":[` + one + `,[1,null]]}`: 400,
			`{"vectors":[` + one + `,[1]]}`: 400, `{"vectors":[[` + strings.Repeat("1,", 1<<19) + `1]]}`: 413, `{"vectors":[[0,0,0,0,0,0,0,0]]}`: 400} {
			v := w.object(w.do("POST", path, body), code)
			if lacks(v) {
				t.Errorf("%.40s: got %v", body, v)
			}
		}
		w.object(w.do("POST", path+"?timeout=x", `{"key":"k0001"}`), 400)
		if v := w.object(w.do("POST", path+"?timeout=0s", `{"key":"k0001"}`), 504); !strings.Contains(fmt.Sprint(v["hint"]), "more time") {
			t.Errorf("no time: got %v", v)
		}
	})
}

// The same rows as an Arrow stream, for one query and for several.
func TestSearchAsArrow(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{}, func(w *world) {
		for _, query := range []string{`"vector":` + one, `"vectors":[` + one + `,` + other + `]`} {
			body := `{` + query + `,"k":3,"policy":"warn","columns":["title"]}`
			v := w.object(w.do("POST", "/v1/tables/orders/search", body), 200)
			answers, ok := v["answers"].([]any)
			if !ok {
				answers = []any{v}
			}
			var want []string
			for i, a := range answers {
				for rank, r := range a.(map[string]any)["results"].([]any) {
					r := r.(map[string]any)
					want = append(want, fmt.Sprintln(i, rank+1, r["key"], r["partition"], r["distance"], r["row"].(map[string]any)["title"]))
				}
			}
			req := httptest.NewRequest("POST", "/v1/tables/orders/search", strings.NewReader(body))
			req.RemoteAddr, req.Host = "127.0.0.1:400", "localhost"
			req.Header.Set("Accept", "application/json;q=0.1, "+arrowx.ContentType)
			rec := httptest.NewRecorder()
			w.ServeHTTP(rec, req)
			if rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != arrowx.ContentType {
				t.Fatalf("%d, %v: %s", rec.Code, rec.Header(), rec.Body)
			}
			stream, err := ipc.NewReader(bytes.NewReader(rec.Body.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for stream.Next() {
				c := stream.Record().Columns()
				for i := range int(stream.Record().NumRows()) {
					got = append(got, fmt.Sprintln(c[0].(*array.Int64).Value(i), c[1].(*array.Int64).Value(i), c[2].(*array.String).Value(i),
						c[3].(*array.String).Value(i), c[4].(*array.Float64).Value(i), c[5].(*array.String).Value(i)))
				}
			}
			if stream.Err() != nil || strings.Join(got, "") != strings.Join(want, "") || len(got) == 0 {
				t.Errorf("got\n%s\nwant\n%s\n%v", got, want, stream.Err())
			}
			md := stream.Schema().Metadata()
			text, _ := md.GetValue("answers")
			var heads []search.Answer
			if err := json.Unmarshal([]byte(text), &heads); err != nil || len(heads) != len(answers) || heads[0].Index != "embedding_idx" || !heads[0].Complete {
				t.Errorf("metadata %s: %v", text, err)
			}
			stream.Release()
		}
		// A refusal is JSON all the same.
		req := httptest.NewRequest("POST", "/v1/tables/orders/search", strings.NewReader(`{}`))
		req.RemoteAddr, req.Host = "127.0.0.1:400", "localhost"
		req.Header.Set("Accept", arrowx.ContentType)
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, req)
		w.object(rec, 400)
	})
}

// Queries that cannot be asked are the client's fault, and say what to do.
func TestSearchBadInput(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{BodyLimit: 4 << 20}, func(w *world) {
		for name, body := range map[string]string{
			"no rows":          `{"vector":` + one + `,"k":0}`,
			"below no rows":    `{"vector":` + one + `,"k":-1}`,
			"too many rows":    `{"vector":` + one + `,"k":10001}`,
			"short":            `{"vector":[1,2]}`,
			"empty":            `{"vector":[]}`,
			"not a number":     `{"vector":[NaN,2,3,4,5,6,7,8]}`,
			"infinite":         `{"vector":[1e999,2,3,4,5,6,7,8]}`,
			"beyond float32":   `{"vector":[1e300,2,3,4,5,6,7,8],"policy":"warn"}`,
			"zero for cosine":  `{"vector":[0,0,0,0,0,0,0,0],"policy":"warn"}`,
			"no partition":     `{"vector":` + one + `,"partitions":["mars"],"policy":"warn"}`,
			"too many probes":  `{"vector":` + one + `,"nprobes":4,"policy":"warn"}`,
			"negative probes":  `{"vector":` + one + `,"nprobes":-1}`,
			"no mode":          `{"vector":` + one + `,"mode":"sideways"}`,
			"no policy":        `{"vector":` + one + `,"policy":"maybe"}`,
			"too many queries": `{"vectors":[` + strings.Repeat(one+",", 10_000) + one + `],"k":1}`,
			"too many answers": `{"vectors":[` + strings.Repeat(one+",", 9_999) + one + `],"k":1000}`,
		} {
			v := w.object(w.do("POST", "/v1/tables/orders/search", body), 400)
			if lacks(v) {
				t.Errorf("%s: got %v", name, v)
			}
		}
		v := w.object(w.do("POST", "/v1/tables/orders/search", `{"vector":`+one+`,"k":10000,"policy":"warn"}`), 200)
		if n := len(v["results"].([]any)); n == 0 || v["complete"] != true && v["fresh"] == true {
			t.Errorf("more rows than there are: %d, %v", n, v["reason"])
		}
		w.object(w.do("POST", "/v1/tables/none/search", `{"vector":`+one+`}`), 404)
	})
}

// The hint of a search that is refused is what helps: not a sync of a table that is paused, nor of one where nothing is due but what was skipped.
func TestHintOfRefusedSearch(t *testing.T) {
	t.Parallel()
	serve(t, httpapi.Config{Secret: "s", Rate: 1000}, func(w *world) {
		auth := []string{"Authorization", "Bearer s"}
		hint := func(want string) {
			t.Helper()
			v := w.object(w.do("POST", "/v1/tables/orders/search", `{"vector":`+one+`,"policy":"fail"}`, auth...), 409)
			if !strings.Contains(fmt.Sprint(v["hint"]), want) || strings.Contains(fmt.Sprint(v["hint"]), "sync") {
				t.Errorf("hint %q, want %q", v["hint"], want)
			}
		}
		w.object(w.do("POST", "/v1/tables/orders/pause", "", auth...), 200)
		w.commit()
		hint("tidemark resume /data/tables/cow_cb; or ask")
		w.object(w.do("POST", "/v1/tables/orders/skip?instant="+w.last.Requested+"&reason=lost", "", auth...), 200)
		w.object(w.do("POST", "/v1/tables/orders/resume", "", auth...), 200)
		hint("1 commit skipped by an operator")
	})
}
