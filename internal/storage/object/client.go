package object

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"
)

// Client makes the requests of one bucket. Keys are whole, from the bucket's root. All methods block and are safe for
// concurrent use; each makes one request and repeats nothing. Their errors are *Failure, or the context's.
type Client interface {
	// Get returns n bytes from off on, or the whole object when n is negative. A range that starts at or behind the
	// object's end is storage.ErrCorrupt; one that only ends behind it may give what there is.
	Get(ctx context.Context, key string, off, n int64) (Body, error)
	// Head describes an object.
	Head(ctx context.Context, key string) (Attr, error)
	// List returns a page of what is directly below prefix, which is empty or ends in a slash. token is "" for the first page,
	// then the last page's Next. limit is the largest number of names wanted, 0 for the store's own.
	List(ctx context.Context, prefix, token string, limit int) (Page, error)
	// Put writes size bytes of body as one object if the condition holds: the object is absent (tag ""), or its version is tag.
	// ErrPrecondition, or storage.ErrNotFound for a tag, when it does not.
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64, tag string) (Attr, error)
	// Delete removes an object; an absent one is no error.
	Delete(ctx context.Context, key string) error
}

// Attr describes an object.
type Attr struct {
	Key     string
	Size    int64     // bytes
	ModTime time.Time // by the store's clock
	Tag     string    // version of the content; opaque
}

// Body is an object's content on its way.
type Body struct {
	io.ReadCloser
	Attr
	Len int64 // bytes that the reader gives when nothing breaks; below 0 when the store did not say
}

// Page is a part of a listing.
type Page struct {
	Objects  []Attr
	Prefixes []string // names below the prefix that go on behind a slash; they end in it
	Next     string   // token of the next page; "" at the end
}

// RangeSize returns the whole object's size from a Content-Range header, such as "bytes 0-4/10"; 0 when it does not say.
func RangeSize(contentRange string) int64 {
	_, size, _ := strings.Cut(contentRange, "/")
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
