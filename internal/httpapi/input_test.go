package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/indexer/follow"
	"tidemark/internal/arrowx"
	"tidemark/internal/httpapi"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/search"
	"tidemark/sink"
)

// made are stores with an index, by what was asked for; they are cloned.
var made sync.Map // of func() (*mem.Store, error)

// indexed returns a table with an index of its first snapshot, three clusters and a metric.
func indexed(t testing.TB, name, metric string) *mem.Store {
	t.Helper()
	f, _ := made.LoadOrStore(name+" "+metric, sync.OnceValues(func() (*mem.Store, error) {
		st, err := mem.FromDir("t", testkit.Table(t, name))
		if err != nil {
			return nil, err
		}
		tb, err := table.Open(t.Context(), st)
		if err != nil {
			return nil, err
		}
		c, err := indexer.OpenCommitter(t.Context(), mdt.Inside(st), indexer.CommitterOptions{Sink: sink.Config{Create: true, Host: "h", PID: 1, Alive: func(int) bool { return false }}})
		if err != nil {
			return nil, err
		}
		o, err := generation.ParseOptions(map[string]string{"vector.num_clusters": "3", "vector.metric": metric})
		if err != nil {
			return nil, err
		}
		_, err = generation.Create(t.Context(), tb, c, generation.CreateRequest{Column: "embedding", AsOf: testkit.Oracle(t, name)[0].Instants[0].Requested, Options: o, Place: mdt.Inside(st)})
		return st, err
	}))
	st, err := f.(func() (*mem.Store, error))()
	if err != nil {
		t.Fatal(err)
	}
	return st.Clone()
}

// state changes the state object of a store.
func state(t testing.TB, st *mem.Store, change func(*mdt.State)) *mem.Store {
	t.Helper()
	s, tag, err := mdt.ReadState(t.Context(), mdt.Inside(st))
	if err != nil {
		t.Fatal(err)
	}
	change(s)
	b, err := mdt.EncodeState(s)
	if err == nil {
		_, err = st.Replace(t.Context(), mdt.Inside(st).StatePath(), b, tag)
	}
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// serveAll follows tables, by name, until nothing is left to be taken in.
func serveAll(t *testing.T, cfg httpapi.Config, tables map[string]storage.Store, fn func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)))
		var list []follow.TableConfig
		for name := range tables {
			list = append(list, follow.TableConfig{Name: name, URL: "/data/" + name})
		}
		f, err := follow.New(follow.Config{Open: func(_ context.Context, c follow.TableConfig) (mdt.Place, error) {
			return mdt.Inside(tables[c.Name]), nil
		}}, list)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Follower, cfg.Rate = f, 1_000_000
		w := &world{t: t, f: f, Server: httpapi.New(cfg)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		fn(w)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// found is an answer as a client sees it, in whatever form it came.
type found struct {
	search.Answer
	keys []string
}

// answers reads the answers of a response in JSON or as an Arrow stream.
func answers(t *testing.T, rec *httptest.ResponseRecorder, batch bool) (out []found) {
	t.Helper()
	if rec.Header().Get("Content-Type") != arrowx.ContentType {
		var many struct{ Answers []search.Answer }
		var one search.Answer
		var err error
		if batch {
			err = json.Unmarshal(rec.Body.Bytes(), &many)
		} else {
			err = json.Unmarshal(rec.Body.Bytes(), &one)
			many.Answers = []search.Answer{one}
		}
		if err != nil || !strings.HasPrefix(rec.Header().Get("Content-Type"), "application/json") {
			t.Errorf("%v: %s", err, rec.Body)
		}
		for _, a := range many.Answers {
			f := found{Answer: a}
			if a.Results == nil {
				t.Errorf("results are null: %s", rec.Body)
			}
			for _, r := range a.Results {
				f.keys = append(f.keys, r.Key)
			}
			out = append(out, f)
		}
		return out
	}
	stream, err := ipc.NewReader(bytes.NewReader(rec.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Release()
	md := stream.Schema().Metadata()
	text, _ := md.GetValue("answers")
	var heads []search.Answer
	if err := json.Unmarshal([]byte(text), &heads); err != nil {
		t.Error(err)
	}
	for i, name := range []string{"query", "rank", "key", "partition", "distance"} {
		if stream.Schema().NumFields() <= i || stream.Schema().Field(i).Name != name {
			t.Errorf("schema %s", stream.Schema())
		}
	}
	for _, a := range heads {
		out = append(out, found{Answer: a})
	}
	for stream.Next() {
		c := stream.Record().Columns()
		for i := range int(stream.Record().NumRows()) {
			f := &out[c[0].(*array.Int64).Value(i)]
			f.keys = append(f.keys, c[2].(*array.String).Value(i))
			if int(c[1].(*array.Int64).Value(i)) != len(f.keys) {
				t.Errorf("rank %v of row %d", c[1], len(f.keys))
			}
		}
	}
	if stream.Err() != nil {
		t.Error(stream.Err())
	}
	return out
}

// input is a request that is bad in some way, or of a table that is: an error, or the right answer.
type input struct {
	name, table string
	ask         string // of the body: key or vector, which is asked in a batch, too, or vectors
	more        string // of the body
	code        int
	says        string // in the error
	rows        int    // of each answer
	unusable    bool   // the index cannot answer this: FAIL and WARN say so, FALLBACK and brute force give rows
	onlyIndex   bool   // brute force gives rows
}

// Every kind of bad input over HTTP, in every mode and policy, for one query and in a batch, as JSON and as an Arrow stream.
func TestSearchInput(t *testing.T) {
	t.Parallel()
	tables := map[string]storage.Store{"basic": indexed(t, "mor_basic", "cosine"), "l2": indexed(t, "mor_basic", "l2"), "dot": indexed(t, "mor_basic", "dot_product"),
		"emptied": indexed(t, "emptied_mor", "cosine"), "gone": indexed(t, "emptied_cow", "cosine"), "nulls": indexed(t, "without_vectors", "cosine"),
		"building": state(t, indexed(t, "mor_basic", "cosine"), func(s *mdt.State) { s.Indexes["embedding_idx"].Generations[0].State = mdt.GenBuilding }),
		"dropped":  state(t, indexed(t, "mor_basic", "cosine"), func(s *mdt.State) { s.Indexes["embedding_idx"].Dropped = true })}
	steps := testkit.Oracle(t, "mor_basic")
	last := steps[len(steps)-1].Rows
	eu := 0
	for _, r := range last {
		if r.Partition == "eu" {
			eu++
		}
	}
	const huge = `[3e38,-3e38,3e38,3e38,-3e38,3e38,3e38,3e38]`
	vector := func(v string) string { return `"vector":` + v }
	many := func(n int) string { return `"vectors":[` + strings.Repeat(one+",", n-1) + one + `]` }
	cases := []input{
		{name: "k of 0", ask: vector(one), more: `"k":0`, code: 400, says: "k is 0"},
		{name: "k below 0", ask: vector(one), more: `"k":-1`, code: 400, says: "k is -1"},
		{name: "k beyond the bound", ask: vector(one), more: `"k":10001`, code: 400, says: "1 to 10000"},
		{name: "k above the rows", ask: vector(one), more: `"k":10000`, rows: len(last)},
		{name: "another dimension", ask: vector(`[1,2]`), code: 400, says: "2 components"},
		{name: "no component", ask: vector(`[]`), code: 400, says: "0 components"},
		{name: "NaN", ask: vector(`[NaN,2,3,4,5,6,7,8]`), code: 400, says: "no JSON at byte"},
		{name: "a component of null", ask: vector(`[null,2,3,4,5,6,7,8]`), code: 400, says: "component 0 of the vector is null"},
		{name: "a component of text", ask: vector(`["NaN",2,3,4,5,6,7,8]`), code: 400, says: "a string in vector"},
		{name: "infinite", ask: vector(`[1e400,2,3,4,5,6,7,8]`), code: 400, says: "1e400"},
		{name: "infinite as float32", ask: vector(`[1e300,2,3,4,5,6,7,8]`), code: 400, says: "query vector"},
		{name: "zero for cosine", ask: vector(`[0,0,0,0,0,0,0,0]`), code: 400, says: "zero"},
		{name: "-0 for cosine", ask: vector(`[-0,-0.0,-0,-0,-0,-0,-0,-0e9]`), code: 400, says: "zero"},
		{name: "denormal", ask: vector(`[1e-45,1e-45,0,0,0,0,0,-0]`), more: `"k":3`, rows: 3},
		{name: "very long, cosine", ask: vector(huge), more: `"k":3`, rows: 3},
		{name: "very long, L2", table: "l2", ask: vector(huge), more: `"k":3`, code: 400, says: "longer than", rows: 3, unusable: true},
		{name: "very long, dot product", table: "dot", ask: vector(huge), more: `"k":3`, code: 400, says: "longer than", rows: 3, unusable: true},
		{name: "zero for dot product", table: "dot", ask: vector(`[0,0,0,0,0,0,0,0]`), more: `"k":3`, code: 400, says: "shorter than", rows: 3, unusable: true},
		{name: "unknown partition", ask: vector(one), more: `"partitions":["eu","mars"]`, code: 400, says: "mars"},
		{name: "no name of a partition", ask: vector(one), more: `"partitions":[""]`, code: 400, says: `partition \"\"`},
		{name: "a partition twice", ask: vector(one), more: `"k":5,"partitions":["eu","eu"]`, rows: 5},
		{name: "fewer rows in the partition", ask: vector(one), more: `"k":100,"partitions":["eu"]`, rows: eu},
		{name: "more probes than clusters", ask: vector(one), more: `"k":1,"nprobes":4`, code: 400, says: "has 3 clusters", rows: 1, onlyIndex: true},
		{name: "probes below 0", ask: vector(one), more: `"nprobes":-1`, code: 400, says: "nprobes is -1"},
		{name: "unknown column", ask: vector(one), more: `"columns":["nothing"]`, code: 400, says: "nothing"},
		{name: "unknown column, no rows", table: "emptied", ask: vector(one), more: `"columns":["nothing"]`, code: 400, says: "nothing"},
		{name: "a column twice", ask: vector(one), more: `"columns":["title","title"]`, code: 400, says: "twice"},
		{name: "the vector as a column", ask: vector(one), more: `"k":2,"columns":["embedding"]`, rows: 2},
		{name: "unknown key", ask: `"key":"nobody"`, code: 404, says: "nobody"},
		{name: "empty key", ask: `"key":""`, code: 400, says: "key is empty"},
		{name: "key of an emptied table", table: "emptied", ask: `"key":"k0001"`, code: 404, says: "k0001"},
		{name: "key of a row without a vector", table: "nulls", ask: `"key":"k0001"`, code: 400, says: "k0001"},
		{name: "neither", more: `"k":1`, code: 400, says: "none of key"},
		{name: "key and vector", ask: `"key":"k0001","vector":` + one, code: 400, says: "2 of key"},
		{name: "no rows: deleted", table: "emptied", ask: vector(one), rows: 0},
		{name: "no rows: partitions deleted", table: "gone", ask: vector(one), rows: 0},
		{name: "no rows in a partition", table: "emptied", ask: vector(one), more: `"partitions":["eu"]`, rows: 0},
		{name: "no row can be indexed", table: "nulls", ask: vector(one), rows: 0},
		{name: "no rows, with columns", table: "nulls", ask: vector(one), more: `"columns":["title"]`, rows: 0},
		{name: "index dropped", table: "dropped", ask: vector(one), code: 404, says: "find index"},
		{name: "unknown index", ask: vector(one), more: `"index":"x"`, code: 404, says: "find index x"},
		{name: "index being built", table: "building", ask: vector(one), more: `"k":4`, code: 404, says: "no active generation", rows: 4, unusable: true},
		{name: "no queries", ask: `"vectors":[]`, code: 400, says: "batch of 0"},
		{name: "10,000 queries", ask: many(10_000), more: `"k":1`, rows: 1},
		{name: "10,001 queries", ask: many(10_001), more: `"k":1`, code: 400, says: "batch of 10001"},
		{name: "too many rows", ask: many(10_000), more: `"k":101`, code: 400, says: "more than 1000000 rows"},
		{name: "a bad query in a batch", ask: `"vectors":[` + one + `,[1]]`, code: 400, says: "query 2 of 2"},
		{name: "a null query in a batch", ask: `"vectors":[` + one + `,null]`, code: 400, says: "query 2 of 2"},
	}
	serveAll(t, httpapi.Config{BodyLimit: 4 << 20}, tables, func(w *world) {
		for _, c := range cases {
			for _, mode := range []string{"exact_rerank", "approximate", "brute_force"} {
				for _, policy := range []string{"FAIL", "warn", "Fallback"} {
					if len(c.ask) > 10_000 && policy != "FAIL" {
						continue // it takes a while, and the policy has no say
					}
					c.asked(w, mode, policy)
				}
			}
		}
	})
}

// asked asks in one mode and policy, alone and in a batch, in both forms.
func (c input) asked(w *world, mode, policy string) {
	w.t.Helper()
	code := c.code
	if code == 0 || c.unusable && (policy == "Fallback" || mode == "brute_force") || c.onlyIndex && mode == "brute_force" {
		code = 200
	}
	name := c.table
	if name == "" {
		name = "basic"
	}
	asks := []string{c.ask}
	if v, ok := strings.CutPrefix(c.ask, `"vector":`); ok {
		asks = append(asks, `"vectors":[`+v+`,`+v+`]`)
	}
	for _, ask := range asks {
		members := []string{`"mode":"` + mode + `"`, `"policy":"` + policy + `"`}
		for _, m := range []string{ask, c.more} {
			if m != "" {
				members = append(members, m)
			}
		}
		for _, accept := range []string{"", arrowx.ContentType} {
			how := fmt.Sprintf("%s: %s, %s, %.20s, %s", c.name, mode, policy, ask, accept)
			rec := w.do("POST", "/v1/tables/"+name+"/search", "{"+strings.Join(members, ",")+"}", "Accept", accept)
			if code != http.StatusOK {
				v := w.object(rec, code)
				if !strings.Contains(rec.Body.String(), c.says) || lacks(v) || v["kind"] != map[int]string{400: "usage", 404: "not_found"}[code] {
					w.t.Errorf("%s: got %s", how, rec.Body)
				}
				continue
			}
			if rec.Code != code {
				w.t.Errorf("%s: %d: %.300s", how, rec.Code, rec.Body)
				continue
			}
			all := answers(w.t, rec, strings.HasPrefix(ask, `"vectors"`))
			if len(all) == 0 {
				w.t.Errorf("%s: no answers", how)
			}
			for _, a := range all {
				did := mode
				if c.unusable {
					did = "brute_force"
				}
				if len(a.keys) != c.rows || !a.Complete || a.Fresh != (c.table != "building") || string(a.Mode) != did || (a.Reason == "") != (did == mode) {
					w.t.Errorf("%s: %d rows, want %d; complete %v, fresh %v, %s, %q", how, len(a.keys), c.rows, a.Complete, a.Fresh, a.Mode, a.Reason)
				}
			}
		}
	}
}
