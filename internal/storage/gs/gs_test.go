package gs_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/gs"
)

// roundTrip is a transport of one function.
type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(r *http.Request, status int, contentType, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Request: r, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {contentType}, "X-Goog-Generation": {"17"}, "Last-Modified": {"Mon, 30 Nov 2026 01:02:03 GMT"}}}, nil
}

// Credentials come from where Google's tools put them, and only for Google's own endpoint. The test sets the environment.
func TestDefaultCredentials(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key.json")
	err := os.WriteFile(key, []byte(`{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r"}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", key)
	t.Setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "payer")
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	for _, c := range []struct {
		name   string
		status int
		body   string
		kind   error
		hint   string
	}{
		{"a token", 200, `{"access_token":"tok","token_type":"Bearer","expires_in":3600}`, nil, ""},
		{"revoked", 400, `{"error":"invalid_grant"}`, storage.ErrRefused, "credentials are wrong or expired"},
		{"trouble", 503, `{}`, nil, "again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			st, err := gs.New("b", "t", gs.Options{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				asked = append(asked, r.URL.Host)
				if strings.Contains(r.URL.Path, "token") {
					return answer(r, c.status, "application/json", c.body)
				}
				if r.Header.Get("Authorization") != "Bearer tok" || r.Header.Get("X-Goog-User-Project") != "payer" {
					t.Errorf("header %v", r.Header)
				}
				return answer(r, 200, "application/octet-stream", "content")
			})})
			if err != nil || len(asked) != 0 {
				t.Fatalf("%v, %q", err, asked)
			}
			b, info, err := st.ReadFile(t.Context(), "f")
			if c.status == 200 {
				if err != nil || string(b) != "content" || info.Tag != "17" || info.ModTime.IsZero() || len(asked) != 2 {
					t.Errorf("%q, %+v, %v, asked %q", b, info, err, asked)
				}
				return
			}
			if err == nil || c.kind != nil && !errors.Is(err, c.kind) || !strings.Contains(storage.Hint(err), c.hint) ||
				(storage.Again(err) > 0) != (c.status >= 500) {
				t.Errorf("%v, hint %q, again %v", err, storage.Hint(err), storage.Again(err))
			}
		})
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", key+" is not there")
	st, err := gs.New("b", "t", gs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Stat(t.Context(), "f"); !errors.Is(err, storage.ErrRefused) || !strings.Contains(storage.Hint(err), "GOOGLE_APPLICATION_CREDENTIALS") {
		t.Errorf("%v, hint %q", err, storage.Hint(err))
	}
}
