package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"tidemark/coverage"
	"tidemark/internal/arrowx"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/search"
)

// maxSearches bounds the searches that are answered at once; others wait.
const maxSearches = 16

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
	q, err := readQuery(r)
	if err != nil {
		return 0, nil, err
	}
	req, vectors, err := q.request()
	if err != nil {
		return 0, nil, err
	}
	arrow, err := wantsArrow(r)
	if err != nil {
		return 0, nil, err
	}
	d, err := s.timeout(r, patience)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	reader, err := s.reader(r.WithContext(ctx))
	if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
		err = bad(http.StatusGatewayTimeout, "give the query more time: timeout=5m", "the deadline came before the table was opened: %w", err)
	}
	if err != nil {
		return 0, nil, err
	}
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
	case arrow:
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
