package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"tidemark/coverage"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/search"
)

// answer answers a request: with a code and a JSON value, or with an error.
type answer func(r *http.Request) (int, any, error)

// failure is what is wrong with a request itself.
type failure struct {
	code  int
	err   error
	hint  string
	where string // the part of the request: "query timeout", "body commitTime", "header HUDI-CALLBACK-KEY"; "" for the whole
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func bad(code int, hint, format string, args ...any) error {
	return &failure{code: code, err: fmt.Errorf(format, args...), hint: hint}
}

// badAt is a 400 that names the part of the request that is wrong.
func badAt(where, hint, format string, args ...any) error {
	return &failure{http.StatusBadRequest, fmt.Errorf(format, args...), hint, where}
}

// codeOf is the status of an error, kind its name, as on the command line.
func codeOf(err error) (code int, kind, hint string) {
	hint = storage.Hint(err)
	var f *failure
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &f):
		kind = map[int]string{http.StatusGatewayTimeout: "failed", http.StatusServiceUnavailable: "failed", http.StatusTooManyRequests: "failed", http.StatusNotFound: "not_found", http.StatusForbidden: "refused", http.StatusUnauthorized: "refused"}[f.code]
		if kind == "" {
			kind = "usage"
		}
		return f.code, kind, f.hint
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, "usage", fmt.Sprintf("at most %d bytes are taken: http.body_limit", tooLarge.Limit)
	case errors.Is(err, coverage.ErrUsage), errors.Is(err, search.ErrUsage):
		return http.StatusBadRequest, "usage", cmp.Or(hint, "docs/operations.md says what can be asked")
	}
	for _, k := range []struct {
		err  error
		code int
		name string
	}{
		{storage.ErrNotFound, http.StatusNotFound, "not_found"},
		{storage.ErrUnsupported, http.StatusUnprocessableEntity, "unsupported"},
		{storage.ErrStale, http.StatusConflict, "stale"},
		{storage.ErrRefused, http.StatusConflict, "refused"},
		{storage.ErrCorrupt, http.StatusInternalServerError, "corrupt"},
	} {
		if errors.Is(err, k.err) {
			return k.code, k.name, hint
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return http.StatusGatewayTimeout, "failed", cmp.Or(hint, "wait longer: timeout=5m")
	}
	if errors.Is(err, context.Canceled) {
		return http.StatusServiceUnavailable, "failed", "the daemon is about to stop, or the client has gone"
	}
	return http.StatusInternalServerError, "failed", hint
}

// write writes a JSON answer, whole: one that cannot be written in JSON must not look like an empty success.
func write(w http.ResponseWriter, code int, v any) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		code = http.StatusInternalServerError
		buf.Reset()
		_ = enc.Encode(map[string]string{"error": "write answer: " + oneLine(err.Error()), "hint": "report it; a search with other columns, or with the mode brute_force, may help", "kind": "failed"}) // strings
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(buf.Bytes()) // the client has gone
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	code, kind, hint := codeOf(err)
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if code >= 400 && r.Context().Err() == nil {
		s.cfg.Log.Debug("request refused", "method", r.Method, "path", r.URL.Path, "status", code, "error", err)
	}
	if v, ok := s.cfg.Follower.Table(r.PathValue("t")); ok {
		hint = mdt.Complete(hint, v.URL, v.Sink)
	}
	out := map[string]string{"error": cut(oneLine(err.Error()), maxError), "hint": hint, "kind": kind}
	var f *failure
	if errors.As(err, &f) && f.where != "" {
		out["where"] = f.where
	}
	write(w, code, out)
}

const (
	maxError = 2000 // bytes of an error's text
	maxEcho  = 100  // bytes of what a client sent, in it
)

// cut ends what a client sent, or an error that repeats it, after n bytes: an answer must not grow with the request.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// oneLine joins the lines of joined errors.
func oneLine(s string) string { return strings.Join(strings.Split(s, "\n"), "; ") }

// limited serves an answer within the rate, with a bounded body.
func (s *Server) limited(h answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.bucket.take(time.Now()) {
			s.fail(w, r, bad(http.StatusTooManyRequests, "come back in a second; http.rate is the bound, and polling covers every commit all the same", "too many requests"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, s.cfg.BodyLimit)
		code, v, err := h(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if c, ok := v.(content); ok {
			w.Header().Set("Content-Type", c.media)
			w.WriteHeader(code)
			_, _ = w.Write(c.bytes) // the client has gone
			return
		}
		write(w, code, v)
	}
}

// asking refuses a request with keys in its query, or in a form that it sends, that nobody reads: a word spelled wrong must not be taken for one
// that is left out.
func asking(h answer, keys ...string) answer {
	return func(r *http.Request) (int, any, error) {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return 0, nil, badAt("query", "escape what is no letter or digit: a space is %20", "read query: %w", err)
		}
		if r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") && len(keys) > 0 && r.Pattern != callbackRoute && r.Pattern != searchRoute {
			if err := r.ParseForm(); err != nil {
				return 0, nil, badAt("body", "send key=value, or put it into the URL", "read form: %w", err)
			}
			values = r.Form
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			switch {
			case !slices.Contains(keys, key):
				hint := "this takes no query"
				if len(keys) > 0 {
					hint = "this takes " + strings.Join(keys, ", ")
				}
				return 0, nil, badAt("query "+cut(key, maxEcho), hint, "unknown key %q in the query", cut(key, maxEcho))
			case len(values[key]) > 1:
				return 0, nil, badAt("query "+key, "give it once", "%s is given %d times", key, len(values[key]))
			}
		}
		return h(r)
	}
}

// bounded gives up after a time: a store that does not answer must not keep requests for ever.
func (s *Server) bounded(h answer) answer {
	return func(r *http.Request) (int, any, error) {
		ctx, cancel := context.WithTimeout(r.Context(), min(patience, s.cfg.MaxWait))
		defer cancel()
		code, v, err := h(r.WithContext(ctx))
		if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
			err = bad(http.StatusGatewayTimeout, "look at the store; GET /v1/tables says what is known without it", "the table's store has not answered for %v: %w", min(patience, s.cfg.MaxWait), err)
		}
		return code, v, err
	}
}

// wrongSecret logs that somebody did not know the secret, such as a writer whose setting is wrong: at most once a minute.
func (s *Server) wrongSecret(r *http.Request) {
	s.mu.Lock()
	again := !s.refusedAt.IsZero() && time.Since(s.refusedAt) < time.Minute
	if !again {
		s.refusedAt = time.Now()
	}
	s.mu.Unlock()
	if !again {
		s.cfg.Log.Warn("request refused: the secret is missing or wrong; further ones are not logged for a minute", "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr)
	}
}

// trusted lets those through who know the secret or, where there is none, programs of this machine.
func (s *Server) trusted(h answer) answer {
	return func(r *http.Request) (int, any, error) {
		if s.cfg.Secret == "" {
			if !local(r.RemoteAddr) || !local(r.Host) {
				return 0, nil, bad(http.StatusForbidden, "set http.secret, and send it as HUDI-CALLBACK-KEY (hoodie.write.commit.callback.http.api.key) or as a bearer token",
					"no secret is configured, so this is taken from this machine only")
			}
			return h(r)
		}
		given := r.Header.Get("HUDI-CALLBACK-KEY")
		if token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); found && !s.same(given) {
			given = token
		}
		if !s.same(given) {
			s.wrongSecret(r)
			return 0, nil, bad(http.StatusUnauthorized, "send http.secret as HUDI-CALLBACK-KEY (hoodie.write.commit.callback.http.api.key) or as a bearer token", "the secret is missing or wrong")
		}
		return h(r)
	}
}

// same compares with the secret in a time that says nothing about either.
func (s *Server) same(given string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.cfg.Secret.Reveal()))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// local says whether an address or host names this machine. A name that a foreign server made point here does not.
func local(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// bucket is a rate with a reserve.
type bucket struct {
	rate, most float64

	mu   sync.Mutex // guards what follows
	left float64
	at   time.Time
}

func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() {
		b.left = b.most
	} else {
		b.left = min(b.most, b.left+max(0, now.Sub(b.at).Seconds())*b.rate)
	}
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
