package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tidemark/coverage"
	"tidemark/internal/arrowx"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/search"
)

// query is the body of a search. One of Key, Vector and Vectors is set.
type query struct {
	Index      string       `json:"index"`
	Key        string       `json:"key"`
	Vector     []*float64   `json:"vector"`
	Vectors    [][]*float64 `json:"vectors"`
	K          int          `json:"k"`
	Mode       string       `json:"mode"`
	NProbes    int          `json:"nprobes"`
	Policy     string       `json:"policy"`
	Partitions []string     `json:"partitions"`
	Columns    []string     `json:"columns"`
}

const (
	// maxK bounds the rows of an answer.
	maxK = 10_000
	// maxSearches bounds the searches that are answered at once; others wait.
	maxSearches = 16
)

// reader is what is kept of a table between searches.
type reader struct {
	*search.Reader
	place     mdt.Place
	url, sink string
}

// reader returns the reader of the table that the path names. One whose table, or whose place of the index, is another now is replaced.
func (s *Server) reader(r *http.Request) (*search.Reader, error) {
	d, cfg, err := s.deps(r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("t")
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.readers[name]; ok && old.url == cfg.URL && old.sink == cfg.Sink && old.place.StateDir == d.Place.StateDir && old.place.MDTDir == d.Place.MDTDir && old.place.Table == d.Place.Table {
		return old.Reader, nil
	}
	deps := search.Deps{Place: d.Place, Table: cfg.URL, Sink: cfg.Sink, Cache: s.cfg.Cache,
		Freshness: func(ctx context.Context, t *table.Table, st *mdt.State, index string) (search.Freshness, error) {
			v, err := coverage.Fresh(ctx, d.Place, t, st, index)
			f := search.Freshness{Fresh: v.Fresh, Reason: v.Reason}
			if n := len(v.Due); err == nil && v.Known() {
				f.LagInstants = &n
			}
			return f, err
		}}
	if s.cfg.Searches != nil {
		deps.Observer = labelled{s.cfg.Searches, cmp.Or(cfg.Name, cfg.URL)}
	}
	s.readers[name] = reader{search.NewReader(deps), d.Place, cfg.URL, cfg.Sink}
	return s.readers[name].Reader, nil
}

// labelled calls the table as metrics do.
type labelled struct {
	search.Observer
	table string
}

func (l labelled) Searched(x search.Searched) {
	x.Table = l.table
	l.Observer.Searched(x)
}

func (s *Server) search(r *http.Request) (int, any, error) {
	q := query{K: 10}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&q); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return 0, nil, err
		}
		return 0, nil, bad(http.StatusBadRequest, `send a JSON object such as {"key": "k1", "k": 10}, {"vector": [0.1, …]} or {"vectors": [[0.1, …], …]}`, "read query: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return 0, nil, bad(http.StatusBadRequest, "send one JSON object", "something follows the query")
	}
	req, vectors, err := q.request()
	if err != nil {
		return 0, nil, err
	}
	d, err := s.timeout(r, patience)
	if err != nil {
		return 0, nil, err
	}
	reader, err := s.reader(r)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	if !s.turn(ctx) {
		return 0, nil, bad(http.StatusServiceUnavailable, "ask again, or send several vectors as one batch", "%d searches are under way already", maxSearches)
	}
	defer func() { <-s.searches }()
	var all []*search.Answer
	if vectors != nil {
		all, err = reader.Batch(ctx, req, vectors)
	} else {
		var a *search.Answer
		a, err = reader.Search(ctx, req)
		all = []*search.Answer{a}
	}
	switch {
	case errors.Is(err, storage.ErrStale):
		return 0, nil, s.stale(ctx, r, req.Index, err)
	case err != nil:
		return 0, nil, err
	case accepts(r, arrowx.ContentType):
		b, err := arrowOf(all, req.Columns)
		return http.StatusOK, content{arrowx.ContentType, b}, err
	case vectors != nil:
		return http.StatusOK, map[string]any{"answers": all}, nil
	}
	return http.StatusOK, all[0], nil
}

// stale says what to do about an index that is not fresh.
func (s *Server) stale(ctx context.Context, r *http.Request, index string, err error) error {
	d, _, bad := s.deps(r)
	if bad != nil {
		return err
	}
	return &storage.Error{Op: "search", Path: r.PathValue("t"), Err: err, Hint: coverage.ToBeFresh(ctx, d, index) + "; or ask with the policy WARN or FALLBACK"}
}

// turn waits until a search may begin.
func (s *Server) turn(ctx context.Context) bool {
	select {
	case s.searches <- struct{}{}:
		return true
	default:
	}
	select {
	case s.searches <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// request checks what can be checked without the table. vectors is nil but for a batch.
func (q query) request() (req search.Request, vectors [][]float64, err error) {
	given := 0
	for _, is := range []bool{q.Key != "", q.Vector != nil, q.Vectors != nil} {
		if is {
			given++
		}
	}
	if given != 1 || q.K < 1 || q.K > maxK || q.NProbes < 0 {
		return req, nil, bad(http.StatusBadRequest, fmt.Sprintf("give one of key, vector and vectors, k from 1 to %d, and nprobes of 0 or more", maxK), "a wrong query")
	}
	req = search.Request{Index: q.Index, Key: q.Key, K: q.K, Mode: search.Mode(q.Mode), NProbes: q.NProbes, Policy: search.Policy(strings.ToUpper(q.Policy)),
		Partitions: q.Partitions, Columns: q.Columns}
	if q.Vector != nil {
		req.Vector, err = numbers(q.Vector)
	}
	if q.Vectors != nil {
		vectors = make([][]float64, len(q.Vectors))
	}
	for i, v := range q.Vectors {
		if vectors[i], err = numbers(v); err != nil {
			return req, nil, bad(http.StatusBadRequest, "send numbers only", "vector %d: %w", i, err)
		}
	}
	return req, vectors, err
}

func numbers(items []*float64) ([]float64, error) {
	out := make([]float64, len(items))
	for i, x := range items {
		if x == nil {
			return nil, bad(http.StatusBadRequest, "send numbers only", "component %d of the vector is null", i)
		}
		out[i] = *x
	}
	return out, nil
}

// accepts says whether a request asks for a media type by name.
func accepts(r *http.Request, media string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(r.Header.Values("Accept"), ","), ","), func(part string) bool {
		name, _, _ := strings.Cut(part, ";")
		return strings.EqualFold(strings.TrimSpace(name), media)
	})
}

// content is an answer that is not JSON.
type content struct {
	media string
	bytes []byte
}

// arrowOf makes a stream of answers: the columns query (its place in the batch, from 0), rank (from 1), key, partition, distance, and
// "row.NAME" for each further column. The schema's metadata has the answers without their rows, as JSON, under "answers".
func arrowOf(all []*search.Answer, names []string) ([]byte, error) {
	columns := []arrowx.Column{{Name: "query"}, {Name: "rank"}, {Name: "key"}, {Name: "partition"}, {Name: "distance"}}
	for _, name := range names {
		columns = append(columns, arrowx.Column{Name: "row." + name})
	}
	heads := make([]search.Answer, len(all))
	for i, a := range all {
		heads[i] = *a
		heads[i].Results = []search.Result{}
		for rank, r := range a.Results {
			values := []any{i, rank + 1, r.Key, r.Partition, r.Distance}
			for _, name := range names {
				values = append(values, r.Row[name])
			}
			for j, v := range values {
				columns[j].Values = append(columns[j].Values, v)
			}
		}
	}
	about, err := json.Marshal(heads)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	err = arrowx.Write(&buf, columns, map[string]string{"answers": string(about), "queries": strconv.Itoa(len(all))})
	return buf.Bytes(), err
}
