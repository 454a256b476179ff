package object

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"tidemark/internal/storage"
)

// ErrPrecondition says that a conditional put found another version than it asked for. It never leaves a Store: Create makes
// storage.ErrExists of it, Replace storage.ErrConflict.
var ErrPrecondition = errors.New("precondition failed")

// ErrNoBucket says that the bucket or container is not there. A Store makes storage.ErrRefused of it.
var ErrNoBucket = errors.New("no such bucket")

// Failure is what went wrong with a request.
type Failure struct {
	Kind    error         // what callers act on; nil when the outcome is unknown
	Again   time.Duration // see storage.Error
	Hint    string        // next step for the operator
	Status  int           // HTTP status; 0 when no answer came
	Code    string        // the provider's word for it
	Request string        // the provider's id of the request, for its support
	Err     error         // cause, when no answer came
}

// How long a call is worth repeating.
const (
	// throttledFor is long: the store is there and asks for patience.
	throttledFor = 2 * time.Minute
	// brokenFor is what a store takes to replace a broken node.
	brokenFor = time.Minute
	// unreachableFor is short: the address may be wrong, and somebody waits to be told.
	unreachableFor = 10 * time.Second
)

// Error names the kind, then what the provider said.
func (f *Failure) Error() string {
	var said []string
	if f.Status != 0 {
		said = append(said, strings.TrimSpace(fmt.Sprint(f.Status, " ", f.Code)))
	}
	if f.Request != "" {
		said = append(said, "request "+f.Request)
	}
	if f.Err != nil {
		said = append(said, f.Err.Error())
	}
	text := strings.Join(said, ", ")
	switch {
	case f.Kind == nil:
		return text
	case text == "":
		return f.Kind.Error()
	}
	return f.Kind.Error() + " (" + text + ")"
}

// Unwrap returns the kind and the cause.
func (f *Failure) Unwrap() []error {
	var out []error
	for _, err := range []error{f.Kind, f.Err} {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// FromStatus says what an HTTP status means in any of the stores. Clients override it where the provider's code says more.
func FromStatus(status int, code, request string) *Failure {
	f := &Failure{Status: status, Code: code, Request: request}
	switch {
	case status == 404:
		f.Kind = storage.ErrNotFound
	case status == 412:
		f.Kind = ErrPrecondition
	case status == 416:
		f.Kind = storage.ErrCorrupt
	case status == 401:
		f.Kind = storage.ErrRefused
		f.Hint = "the credentials are missing, wrong or expired"
	case status == 403:
		f.Kind = storage.ErrRefused
		f.Hint = "these credentials may not do that there: reading needs permission to get and list objects, " +
			"keeping an index also to put and delete them"
	case status == 429:
		f.Again = throttledFor
		f.Hint = "the store asks to slow down; the same command can be run again, nothing is lost"
	case status == 501:
		f.Kind = storage.ErrUnsupported
		f.Hint = "the store must support conditional puts and ranged reads"
	case status == 507:
		f.Hint = "free space or raise the quota, then run the same command again; nothing is lost"
	case status == 408 || status >= 500:
		f.Again = brokenFor
		f.Hint = "the store has trouble; the same command can be run again, nothing is lost"
	default:
		f.Kind = storage.ErrRefused // other answers below 500 mean that nothing was done
	}
	return f
}

// Throttled turns f into an answer that asks for patience.
func (f *Failure) Throttled() *Failure {
	slow := FromStatus(429, f.Code, f.Request)
	slow.Status = f.Status
	return slow
}

// NoAnswer says what it means that no answer came, or that it broke off: the context's error if that has ended, since
// time-outs of connections look the same. endpoint is the setting to look at.
func NoAnswer(ctx context.Context, err error, endpoint string) error {
	if done := ctx.Err(); done != nil {
		return fmt.Errorf("%w (%w)", done, err)
	}
	// Only the host of the URL is shown: a query may hold a signature, and paths are named by the caller.
	if asked := (*url.Error)(nil); errors.As(err, &asked) {
		host := ""
		if u, bad := url.Parse(asked.URL); bad == nil {
			host = u.Host
		}
		err = fmt.Errorf("ask %s: %w", host, asked.Err)
	}
	f := &Failure{Err: err, Again: brokenFor, Hint: "look at the network; the same command can be run again, nothing is lost"}
	var dns *net.DNSError
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		f.Again, f.Hint = 0, "there is no such host: check the URL and "+endpoint
	case errors.As(err, &cert), errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		f.Again, f.Hint = 0, "the connection cannot be trusted: check "+endpoint+" and the certificates"
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &op) && op.Op == "dial":
		f.Again, f.Hint = unreachableFor, "nothing answers there: check the network and "+endpoint
	}
	return f
}
