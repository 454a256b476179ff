package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tidemark/coverage"
	"tidemark/indexer"
	"tidemark/indexer/follow"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	ok, why := s.cfg.Follower.Ready()
	if !ok {
		write(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": why})
		return
	}
	// A table that is in trouble is no reason to take callbacks and searches of all others away from this process: it is said, as /v1/tables says it.
	out := readiness{Status: "ready", Trouble: []trouble{}}
	for _, v := range s.cfg.Follower.Tables() {
		out.Tables++
		if v.Fresh {
			out.Fresh++
		}
		if v.Trouble() && len(out.Trouble) < maxTrouble {
			out.Trouble = append(out.Trouble, trouble{v.Name, string(v.State), cmp.Or(v.Reason, v.Error)})
		}
	}
	write(w, http.StatusOK, out)
}

// maxTrouble bounds the tables in trouble that /readyz names.
const maxTrouble = 20

// readiness is the answer of /readyz.
type readiness struct {
	Status  string    `json:"status"`
	Tables  int       `json:"tables"`
	Fresh   int       `json:"fresh"`
	Trouble []trouble `json:"trouble"`
}

type trouble struct {
	Table  string `json:"table"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Metrics == nil {
		s.fail(w, r, bad(http.StatusNotFound, "/v1/tables has the lag of every table", "no metrics are kept"))
		return
	}
	s.cfg.Metrics.ServeHTTP(w, r)
}

// elsewhere answers what no route takes: 405 where another method would do, else 404.
func (s *Server) elsewhere(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			other := r.Clone(r.Context())
			other.Method = method
			if _, pattern := mux.Handler(other); pattern != "/" {
				allowed = append(allowed, method)
			}
		}
		s.limited(func(*http.Request) (int, any, error) {
			if len(allowed) == 0 {
				return 0, nil, bad(http.StatusNotFound, "GET /v1/tables lists the tables; docs/operations.md lists what there is", "nothing is at %s", r.URL.Path)
			}
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			return 0, nil, bad(http.StatusMethodNotAllowed, "use "+strings.Join(allowed, " or "), "%s is not taken at %s", r.Method, r.URL.Path)
		})(w, r)
	}
}

func (s *Server) tables(*http.Request) (int, any, error) {
	return http.StatusOK, map[string]any{"tables": s.cfg.Follower.Tables(), "unknown_hints": s.cfg.Follower.Unknown()}, nil
}

// named returns the table that the path names.
func (s *Server) named(r *http.Request) (follow.TableView, error) {
	v, ok := s.cfg.Follower.Table(r.PathValue("t"))
	if !ok {
		return v, bad(http.StatusNotFound, "GET /v1/tables lists the tables; a path must be escaped: %2Fdata%2Ft", "table %q is not followed", r.PathValue("t"))
	}
	return v, nil
}

func (s *Server) table(r *http.Request) (int, any, error) {
	v, err := s.named(r)
	return http.StatusOK, v, err
}

// deps opens the table that the path names, for coverage.
func (s *Server) deps(r *http.Request) (coverage.Deps, follow.TableConfig, error) {
	if _, err := s.named(r); err != nil {
		return coverage.Deps{}, follow.TableConfig{}, err
	}
	place, cfg, err := s.cfg.Follower.Place(r.Context(), r.PathValue("t"))
	if errors.Is(err, storage.ErrNotFound) && (cfg.Sink == "" || storage.Hint(err) == "") {
		err = &storage.Error{Op: "open table", Path: cfg.URL, Err: storage.ErrNotFound, Hint: "it is followed as soon as it exists"}
	}
	return coverage.Deps{Place: place, Table: cfg.URL, Sink: cfg.Sink, ZoneOffset: cfg.ZoneOffset, Known: s.cfg.Follower.Known(r.PathValue("t"))}, cfg, err
}

func (s *Server) status(r *http.Request) (int, any, error) {
	d, cfg, err := s.deps(r)
	if err != nil {
		return 0, nil, err
	}
	all, err := coverage.Status(r.Context(), d)
	if err != nil {
		return 0, nil, err
	}
	state, fresh := follow.Worst(all)
	return http.StatusOK, map[string]any{"table": cfg.URL, "state": state, "fresh": fresh, "indexes": all}, nil
}

func (s *Server) markers(r *http.Request) (int, any, error) {
	last, err := strconv.Atoi(cmp.Or(r.FormValue("last"), "20"))
	if err != nil || last < 0 {
		return 0, nil, badAt("query last", "last is a number of commits; 0 for all", "last=%q is no number", r.FormValue("last"))
	}
	d, cfg, err := s.deps(r)
	if err != nil {
		return 0, nil, err
	}
	all, err := coverage.Markers(r.Context(), d, r.FormValue("index"), last)
	return http.StatusOK, map[string]any{"table": cfg.URL, "markers": all}, err
}

// timeout reads how long a request may wait.
func (s *Server) timeout(r *http.Request, otherwise time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get("timeout")
	if text == "" {
		return min(otherwise, s.cfg.MaxWait), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, badAt("query timeout", "write a number with a unit, as in timeout=30s", "timeout=%q is no duration", text)
	}
	return min(d, s.cfg.MaxWait), nil
}

// patience is how long a request waits that does not say.
const patience = 30 * time.Second

func (s *Server) wait(r *http.Request) (int, any, error) {
	covers, err := instant(r, "covers", true)
	if err != nil {
		return 0, nil, err
	}
	if _, err := s.named(r); err != nil {
		return 0, nil, err
	}
	return s.covered(r, r.PathValue("t"), covers)
}

// covered waits until an instant is covered. The code is 504 if it is not in time.
func (s *Server) covered(r *http.Request, name, instant string) (int, any, error) {
	d, err := s.timeout(r, patience)
	if err != nil {
		return 0, nil, err
	}
	select {
	case s.waiters <- struct{}{}:
		defer func() { <-s.waiters }()
	default:
		return 0, nil, bad(http.StatusServiceUnavailable, "wait for fewer commits at once, or ask again", "%d requests wait already", maxWaiters)
	}
	res, err := s.cfg.Follower.WaitCovered(r.Context(), name, coverage.WaitRequest{Index: r.URL.Query().Get("index"), Covers: instant, Timeout: d})
	if err != nil {
		return 0, nil, err
	}
	code := http.StatusOK
	if !res.Covered {
		code = http.StatusGatewayTimeout
	}
	return code, res, nil
}

// decide makes an operator's decision and wakes the table's loop.
func (s *Server) decide(r *http.Request, fn func(ctx context.Context, place mdt.Place) (*indexer.Decisions, error)) (int, any, error) {
	d, cfg, err := s.deps(r)
	if err != nil {
		return 0, nil, err
	}
	now, err := fn(r.Context(), d.Place)
	if err != nil {
		return 0, nil, err
	}
	s.cfg.Log.Info("operator decided", "table", cmp.Or(cfg.Name, cfg.URL), "decision", r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], "instant", r.FormValue("instant"), "from", r.RemoteAddr)
	s.cfg.Follower.Wake(r.PathValue("t"))
	return http.StatusOK, now, nil
}

func (s *Server) pause(r *http.Request) (int, any, error)  { return s.decide(r, indexer.Pause) }
func (s *Server) resume(r *http.Request) (int, any, error) { return s.decide(r, indexer.Resume) }

// instant reads the instant of a request, "" where it may be left out.
func instant(r *http.Request, key string, needed bool) (string, error) {
	text := r.FormValue(key)
	if text == "" && !needed {
		return "", nil
	}
	const hint = "give a requested or completion time; GET /v1/tables/T/status names the commits that are not covered"
	if text == "" {
		return "", badAt("query "+key, hint, "%s is missing", key)
	}
	if err := coverage.CheckInstant(text); err != nil {
		return "", badAt("query "+key, hint, "%s: %w", key, err)
	}
	return text, nil
}

func (s *Server) retry(r *http.Request) (int, any, error) {
	at, err := instant(r, "instant", false)
	if err != nil {
		return 0, nil, err
	}
	return s.decide(r, func(ctx context.Context, p mdt.Place) (*indexer.Decisions, error) {
		return indexer.Retry(ctx, p, at)
	})
}

func (s *Server) skip(r *http.Request) (int, any, error) {
	at, err := instant(r, "instant", true)
	if err != nil {
		return 0, nil, err
	}
	reason := r.FormValue("reason")
	if reason == "" || len(reason) > indexer.MaxReason {
		return 0, nil, badAt("query reason", "say why, for those who read it later", "a reason of 1 to %d bytes is needed", indexer.MaxReason)
	}
	return s.decide(r, func(ctx context.Context, p mdt.Place) (*indexer.Decisions, error) {
		return indexer.Skip(ctx, p, at, reason)
	})
}
