// Package gs is a storage.Store on Google Cloud Storage.
//
// It owns the JSON API of Cloud Storage, of which it needs five calls, and Google's credentials library. Everything that is
// not Google's own is in package object. It refuses to repeat requests (package retry does) and to use resumable uploads. It
// may import storage and object only.
//
// DECISION: no generated client. A program that only puts, lists and gets an object was 34 MB and 671 packages with
// cloud.google.com/go/storage (it brings gRPC), 15 MB and 435 with google.golang.org/api/storage/v1, and is 7 MB and 206 so,
// of which 6 MB are net/http.
//
// Invariant: nothing is looked up, on disk or in the network, before the first request.
package gs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/object"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// Options override what the environment says. The zero value is right.
type Options struct {
	// Endpoint is the URL of the service, without /storage/v1. One that is given here or in STORAGE_EMULATOR_HOST is an
	// emulator and gets no credentials. Defaults to STORAGE_EMULATOR_HOST, then Google's own.
	Endpoint string
	// QuotaProject is billed for requests. Defaults to GOOGLE_CLOUD_QUOTA_PROJECT, then none.
	QuotaProject string
	// Transport makes the HTTP requests, for tests. Defaults to one with the environment's proxies.
	Transport http.RoundTripper
}

const (
	googleEndpoint = "https://storage.googleapis.com"
	scope          = "https://www.googleapis.com/auth/devstorage.read_write"
	// maxPut is the service's limit for an object.
	maxPut = 5 << 40
	// endpointSetting is what to look at when nothing answers.
	endpointSetting = "STORAGE_EMULATOR_HOST"
)

// New returns the store at bucket/prefix. It makes no request and looks for no credentials yet.
func New(bucket, prefix string, o Options) (storage.Store, error) {
	prefix = strings.Trim(prefix, "/")
	url := strings.TrimSuffix("gs://"+bucket+"/"+prefix, "/")
	if bucket == "" {
		return nil, &storage.Error{Op: "open", Path: url, Err: fmt.Errorf("no bucket: %w", storage.ErrUnsupported),
			Hint: "write gs://bucket/path/to/table"}
	}
	if err := storage.CheckPath("open", prefix); err != nil {
		return nil, err
	}
	c := &client{bucket: bucket, load: sync.OnceValues(func() (*session, error) { return connect(o) })}
	return object.New(c, object.Config{URL: url, Bucket: bucket, Prefix: prefix, MaxPut: maxPut}), nil
}

// session is what all requests of a store share.
type session struct {
	http     *http.Client
	endpoint string
	project  string
}

// connect finds the credentials. The context is not a caller's: what is found here serves all of them.
func connect(o Options) (*session, error) {
	base := o.Transport
	if base == nil {
		base = object.Transport()
	}
	s := &session{http: &http.Client{Transport: base}, endpoint: o.Endpoint, project: o.QuotaProject}
	if s.endpoint == "" {
		s.endpoint = os.Getenv("STORAGE_EMULATOR_HOST")
	}
	if s.project == "" {
		s.project = os.Getenv("GOOGLE_CLOUD_QUOTA_PROJECT")
	}
	if s.endpoint != "" {
		if !strings.Contains(s.endpoint, "://") {
			s.endpoint = "http://" + s.endpoint
		}
		s.endpoint = strings.TrimSuffix(strings.TrimSuffix(s.endpoint, "/"), "/storage/v1")
		return s, nil
	}
	s.endpoint = googleEndpoint
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{Transport: base, Timeout: time.Minute})
	found, err := google.FindDefaultCredentials(ctx, scope)
	if err != nil {
		return nil, &object.Failure{Kind: storage.ErrRefused, Err: errors.New("no credentials: " + err.Error()),
			Hint: "set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run where a service account gives credentials"}
	}
	s.http.Transport = &oauth2.Transport{Source: found.TokenSource, Base: base}
	return s, nil
}
