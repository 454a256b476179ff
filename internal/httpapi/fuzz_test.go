package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"tidemark/indexer/follow"
	"tidemark/internal/arrowx"
	"tidemark/internal/httpapi"
	"tidemark/internal/hudi/mdt"
)

// Whatever a client sends as a search, it gets an answer, or an error of its own with a next step: no panic, no failure of the server's.
func FuzzSearch(f *testing.F) {
	for _, seed := range []string{``, `null`, `{"vector":` + one + `,"k":3,"policy":"warn","mode":"approximate"}`, `{"vectors":[` + one + `,` + other + `],"k":2,"columns":["title"],"partitions":["eu"]}`,
		`{"key":"k0001","nprobes":3,"policy":"FALLBACK"}`, `{"vector":[3e38,3e38,-3e38,1e-45,-0,0,0,1]}`, `{"vector":[1e400]}`, `{"K":1e0,"key":"\u0000"}`, `{"key":"k0001","columns":["_hoodie_record_key","embedding"]}`,
		`{"vector":` + one + `,"mode":"brute_force","k":10000}`, `{"key":"k0001","index":"embedding_idx"}`, `{"key":"k0001","partitions":["/",""]}`} {
		f.Add(seed, "timeout=20s", "")
		f.Add(seed, "timeout=1ms", arrowx.ContentType)
	}
	st := indexed(f, "mor_basic", "l2")
	follower, err := follow.New(follow.Config{Open: func(context.Context, follow.TableConfig) (mdt.Place, error) { return mdt.Inside(st), nil }},
		[]follow.TableConfig{{Name: "orders", URL: "/data/orders"}})
	if err != nil {
		f.Fatal(err)
	}
	s := httpapi.New(httpapi.Config{Follower: follower, Rate: 1 << 30, BodyLimit: 1 << 16})
	f.Fuzz(func(t *testing.T, body, query, accept string) {
		r := httptest.NewRequest("POST", "/v1/tables/orders/search", strings.NewReader(body))
		r.URL.RawQuery = query
		r.RemoteAddr, r.Host = "127.0.0.1:5000", "127.0.0.1:7427"
		r.Header.Set("Accept", accept)
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		var v map[string]any
		if rec.Header().Get("Content-Type") != arrowx.ContentType {
			if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
				t.Errorf("%d %q: %v", rec.Code, rec.Body, err)
			}
		}
		switch rec.Code {
		case 200:
		case 400, 404, 406, 409, 413, 422, 503, 504:
			if lacks(v) || rec.Body.Len() > 20_000 { // six bytes in JSON for one of 2,000, and a hint
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
		default:
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
}
