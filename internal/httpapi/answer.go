package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"tidemark/coverage"
	"tidemark/internal/storage"
	"tidemark/search"
)

// answer answers a request: with a code and a JSON value, or with an error.
type answer func(r *http.Request) (int, any, error)

// failure is what is wrong with a request itself.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func bad(code int, hint, format string, args ...any) error {
	return &failure{code, fmt.Errorf(format, args...), hint}
}

// codeOf is the status of an error, kind its name, as on the command line.
func codeOf(err error) (code int, kind, hint string) {
	hint = storage.Hint(err)
	var f *failure
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &f):
		kind = map[int]string{http.StatusNotFound: "not_found", http.StatusForbidden: "refused", http.StatusUnauthorized: "refused"}[f.code]
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

// write writes a JSON answer.
func write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client has gone
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	code, kind, hint := codeOf(err)
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if code >= 400 && r.Context().Err() == nil {
		s.cfg.Log.Debug("request refused", "method", r.Method, "path", r.URL.Path, "status", code, "error", err)
	}
	write(w, code, map[string]string{"error": oneLine(err.Error()), "hint": hint, "kind": kind})
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
