package s3_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/cloudtest"
	"tidemark/internal/storage/retry"
	"tidemark/internal/storage/s3"
)

func TestErrorCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   string
		status int
		kind   error // nil: unknown
		again  time.Duration
		hint   string
	}{
		{"SlowDown", 503, nil, 2 * time.Minute, "slow down"},
		{"RequestLimitExceeded", 403, nil, 2 * time.Minute, "slow down"},
		{"InternalError", 500, nil, time.Minute, "trouble"},
		{"RequestTimeout", 400, nil, time.Minute, ""},
		{"ConditionalRequestConflict", 409, nil, time.Minute, ""},
		{"RequestTimeTooSkewed", 403, storage.ErrRefused, 10 * time.Second, "clock"},
		{"AccessDenied", 403, storage.ErrRefused, 0, "permission"},
		{"ExpiredToken", 400, storage.ErrRefused, 0, "expired"},
		{"SignatureDoesNotMatch", 403, storage.ErrRefused, 0, "credentials"},
		{"PermanentRedirect", 301, storage.ErrRefused, 0, "AWS_REGION=eu-south-1"},
		{"IllegalLocationConstraintException", 400, storage.ErrRefused, 0, "AWS_REGION=eu-south-1"},
		{"NoSuchBucket", 404, storage.ErrRefused, 0, "no bucket " + cloudtest.Bucket},
		{"InvalidObjectState", 403, storage.ErrRefused, 0, "archive"},
		{"EntityTooLarge", 400, storage.ErrUnsupported, 0, ""},
		{"XMinioStorageFull", 507, nil, 0, "free space"},
		{"NotImplemented", 501, storage.ErrUnsupported, 0, "conditional puts"},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			server := cloudtest.S3(t)
			server.SetHook(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
				w.Header().Set("X-Amz-Request-Id", "REQ1")
				w.Header().Set("X-Amz-Bucket-Region", "eu-south-1")
				w.WriteHeader(c.status)
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>because</Message></Error>", c.code)
			})
			st, err := s3.New(cloudtest.Bucket, "", s3.Options{Endpoint: server.URL, AccessKey: cloudtest.Writer, SecretKey: "x"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = st.Create(t.Context(), "f", []byte("1"))
			if c.kind != nil && !errors.Is(err, c.kind) || storage.Again(err) != c.again || !strings.Contains(storage.Hint(err), c.hint) {
				t.Errorf("got %v, again %v, hint %q", err, storage.Again(err), storage.Hint(err))
			}
			for _, kind := range []error{storage.ErrConflict, storage.ErrExists, storage.ErrNotFound, storage.ErrRefused} {
				if c.kind == nil && errors.Is(err, kind) {
					t.Errorf("%v has kind %v", err, kind)
				}
			}
			if len(server.Requests()) != 1 || !strings.Contains(err.Error(), "request REQ1") || !strings.Contains(err.Error(), c.code) {
				t.Errorf("%v after %q", err, server.Requests())
			}
		})
	}
}

// Nothing is asked and no configuration is read until a store is used.
func TestOpeningAsksNothing(t *testing.T) {
	t.Parallel()
	server := cloudtest.S3(t)
	st, err := s3.New("other", "a/b/", s3.Options{Endpoint: server.URL, Profile: "there is no such profile"})
	if err != nil || st.URL() != "s3://other/a/b" || len(server.Requests()) != 0 {
		t.Fatalf("%v, %v, %q", st, err, server.Requests())
	}
	_, err = st.List(t.Context(), "")
	if !errors.Is(err, storage.ErrRefused) || !strings.Contains(storage.Hint(err), "AWS_PROFILE") {
		t.Errorf("%v, hint %q", err, storage.Hint(err))
	}
}

// A machine whose clock is an hour off is refused once; the SDK then signs with the server's time.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	server := cloudtest.S3(t)
	server.Put("f", []byte("1"), time.Now(), nil)
	server.SetHook(func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		there := time.Now().Add(time.Hour)
		w.Header().Set("Date", there.UTC().Format(http.TimeFormat))
		signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err != nil || there.Sub(signed).Abs() > 15*time.Minute {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<Error><Code>RequestTimeTooSkewed</Code><Message>too far</Message></Error>")
			return
		}
		serve(w, r)
	})
	st, err := s3.New(cloudtest.Bucket, "", s3.Options{Endpoint: server.URL, Region: cloudtest.Region, AccessKey: cloudtest.Writer, SecretKey: "x"})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = st.ReadFile(t.Context(), "f")
	if !errors.Is(err, storage.ErrRefused) || !strings.Contains(storage.Hint(err), "clock") {
		t.Errorf("%v, hint %q", err, storage.Hint(err))
	}
	if b, _, err := retry.New(st, retry.Config{First: time.Millisecond}).ReadFile(t.Context(), "f"); err != nil || string(b) != "1" {
		t.Errorf("%q, %v", b, err)
	}
	// HEAD does not say why it is refused; a listing does.
	st, err = s3.New(cloudtest.Bucket, "", s3.Options{Endpoint: server.URL, Region: cloudtest.Region, AccessKey: cloudtest.Writer, SecretKey: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := st.Stat(t.Context(), "f"); err != nil || info.Size != 1 {
		t.Errorf("stat: %+v, %v", info, err)
	}
	st, err = s3.New(cloudtest.Bucket, "", s3.Options{Endpoint: server.URL, Region: "us-west-1", AccessKey: cloudtest.Writer, SecretKey: "x"})
	if err != nil {
		t.Fatal(err)
	}
	server.SetHook(nil)
	if _, err = st.Stat(t.Context(), "f"); !errors.Is(err, storage.ErrRefused) || !strings.Contains(storage.Hint(err), cloudtest.Region) {
		t.Errorf("stat in the wrong region: %v, hint %q", err, storage.Hint(err))
	}
}
