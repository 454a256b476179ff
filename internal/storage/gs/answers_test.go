package gs_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/cloudtest"
	"tidemark/internal/storage/gs"
)

func TestErrorReasons(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		status int
		kind   error // nil: unknown
		again  time.Duration
		hint   string
	}{
		{"rateLimitExceeded", 429, nil, 2 * time.Minute, "slow down"},
		{"userRateLimitExceeded", 403, nil, 2 * time.Minute, "slow down"},
		{"backendError", 503, nil, time.Minute, "trouble"},
		{"conflict", 409, nil, time.Minute, ""},
		{"quotaExceeded", 403, storage.ErrRefused, 0, "quota"},
		{"forbidden", 403, storage.ErrRefused, 0, "permission"},
		{"required", 401, storage.ErrRefused, 0, "credentials"},
		{"conditionNotMet", 412, storage.ErrExists, 0, ""},
		{"invalid", 400, storage.ErrRefused, 0, ""},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			server := cloudtest.GCS(t)
			server.SetHook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
				w.Header().Set("X-Guploader-Uploadid", "REQ1")
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				fmt.Fprintf(w, `{"error":{"code":%d,"message":"because","errors":[{"reason":%q}]}}`, c.status, c.reason)
			})
			st, err := gs.New(cloudtest.Bucket, "", gs.Options{Endpoint: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			_, err = st.Create(t.Context(), "f", []byte("1"))
			if err == nil || c.kind != nil && !errors.Is(err, c.kind) || storage.Again(err) != c.again || !strings.Contains(storage.Hint(err), c.hint) {
				t.Errorf("got %v, again %v, hint %q", err, storage.Again(err), storage.Hint(err))
			}
			for _, kind := range []error{storage.ErrConflict, storage.ErrExists, storage.ErrNotFound, storage.ErrRefused} {
				if c.kind == nil && errors.Is(err, kind) {
					t.Errorf("%v has kind %v", err, kind)
				}
			}
			said := c.kind == storage.ErrExists || strings.Contains(err.Error(), "request REQ1") && strings.Contains(err.Error(), c.reason)
			if len(server.Requests()) != 1 || !said {
				t.Errorf("%v after %q", err, server.Requests())
			}
		})
	}
}

// The client compares whole objects with the service's checksum: what was damaged on its way is read again, not used.
func TestDamageOnTheWayIsFound(t *testing.T) {
	t.Parallel()
	server := cloudtest.GCS(t)
	server.Put("f", []byte("0123456789"), time.Now(), nil)
	server.SetHook(func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		rec := httptest.NewRecorder()
		serve(rec, r)
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		body := rec.Body.Bytes()
		body[3] ^= 1
		_, _ = w.Write(body)
	})
	st, err := gs.New(cloudtest.Bucket, "", gs.Options{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := st.ReadFile(t.Context(), "f")
	if err == nil || storage.Again(err) == 0 || errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("%q, %v", b, err)
	}
}

// A server that answers a range with the whole object is refused, wherever the range begins.
func TestRangesIgnored(t *testing.T) {
	t.Parallel()
	server := cloudtest.GCS(t)
	server.Put("f", []byte("0123456789"), time.Now(), nil)
	server.SetHook(func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		r.Header.Del("Range")
		serve(w, r)
	})
	st, err := gs.New(cloudtest.Bucket, "", gs.Options{Endpoint: strings.TrimPrefix(server.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	for _, off := range []int64{0, 5} {
		for _, n := range []int64{2, 10} {
			if b, err := st.ReadRange(t.Context(), "f", off, n); !errors.Is(err, storage.ErrUnsupported) {
				t.Errorf("%d bytes at %d: %q, %v", n, off, b, err)
			}
		}
	}
}
