// Package gs is a storage.Store on Google Cloud Storage.
//
// It owns Google's client: configuration, requests, what its errors mean. Everything that is not Google's own is in package
// object. It refuses to repeat requests (package retry does) and to use resumable uploads. It may import storage and object only.
//
// The client speaks JSON over HTTP, not gRPC: emulators, proxies and the limits of package object are the same as for the other
// stores.
//
// Invariant: nothing is looked up, on disk or in the network, before the first request.
package gs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/object"

	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/auth/httptransport"
	sdk "cloud.google.com/go/storage"
	"google.golang.org/api/option"
)

// Options override what the environment says. The zero value is right.
type Options struct {
	// Endpoint is the URL of the service, without /storage/v1. One that is given here or in STORAGE_EMULATOR_HOST is an
	// emulator and gets no credentials. Defaults to STORAGE_EMULATOR_HOST, then Google's own.
	Endpoint string
	// QuotaProject is billed for requests. Defaults to GOOGLE_CLOUD_QUOTA_PROJECT, then what the credentials say, then none.
	QuotaProject string
	// Transport makes the HTTP requests, for tests. Defaults to one with the environment's proxies.
	Transport http.RoundTripper
}

const (
	// maxPut is the service's limit for an object.
	maxPut = 5 << 40
	// endpointSetting is what to look at when nothing answers.
	endpointSetting = "STORAGE_EMULATOR_HOST"
)

// New returns the store at bucket/prefix. It makes no request and looks for no credentials yet.
func New(bucket, prefix string, o Options) (storage.Store, error) {
	c := &client{load: sync.OnceValues(func() (*sdk.BucketHandle, error) { return connect(bucket, o) })}
	return object.New(c, object.Config{URL: "gs://" + bucket, Bucket: bucket, Prefix: prefix, MaxPut: maxPut})
}

// connect finds the credentials. The context is not a caller's: what is found here serves all of them.
func connect(bucket string, o Options) (*sdk.BucketHandle, error) {
	base := o.Transport
	if base == nil {
		base = object.Transport()
	}
	refuse := func(err error, hint string) (*sdk.BucketHandle, error) {
		return nil, &object.Failure{Kind: storage.ErrRefused, Err: err, Hint: hint}
	}
	endpoint := o.Endpoint
	if endpoint == "" {
		endpoint = os.Getenv("STORAGE_EMULATOR_HOST")
	}
	opts := []option.ClientOption{sdk.WithJSONReads(), sdk.WithDisabledClientMetrics()}
	calls := &httptransport.Options{BaseRoundTripper: &transport{base}, DisableTelemetry: true, Headers: http.Header{}}
	if o.QuotaProject != "" {
		calls.Headers.Set("X-Goog-User-Project", o.QuotaProject)
	}
	if endpoint != "" {
		if !strings.Contains(endpoint, "://") {
			endpoint = "http://" + endpoint
		}
		endpoint = strings.TrimSuffix(strings.TrimSuffix(endpoint, "/"), "/storage/v1")
		calls.DisableAuthentication = true
		opts = append(opts, option.WithEndpoint(endpoint+"/storage/v1/"), option.WithoutAuthentication())
	} else {
		found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{sdk.ScopeReadWrite},
			Client: &http.Client{Transport: base, Timeout: time.Minute}})
		if err != nil {
			return refuse(errors.New("no credentials: "+err.Error()),
				"set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run where a service account gives credentials")
		}
		calls.Credentials = found
		opts = append(opts, option.WithAuthCredentials(found))
	}
	hc, err := httptransport.NewClient(calls)
	if err != nil {
		return refuse(err, "check the credentials")
	}
	api, err := sdk.NewClient(context.Background(), append(opts, option.WithHTTPClient(hc))...)
	if err != nil {
		return refuse(err, "check "+endpointSetting)
	}
	api.SetRetry(sdk.WithPolicy(sdk.RetryNever))
	return api.Bucket(bucket), nil
}

// read is what the transport knows of one read of an object.
type read struct {
	status int   // of the answer
	err    error // why no answer came, or why it broke off
}

type readKey struct{}

// transport makes requests, and makes each read of an object exactly one: the client asks again, without end, where an answer
// breaks off, whatever its retry policy. What went wrong is what the second request gets to hear.
type transport struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	r, ok := req.Context().Value(readKey{}).(*read)
	if !ok {
		return t.base.RoundTrip(req)
	}
	if r.err != nil {
		return nil, r.err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Accept-Encoding", "gzip") // bytes come as they are stored, whatever their content encoding
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		r.err = err
		return nil, err
	}
	r.status = resp.StatusCode
	resp.Body = &readBody{ReadCloser: resp.Body, of: r}
	return resp, nil
}

// readBody notes why a body broke off.
type readBody struct {
	io.ReadCloser
	of *read
}

// Read implements io.Reader.
func (b *readBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.of.err = err
	}
	return n, err
}
