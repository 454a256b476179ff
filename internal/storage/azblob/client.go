package azblob

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/object"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// client is an object.Client on one container.
type client struct {
	load func() (*container.Client, error) // once
}

var _ object.Client = (*client)(nil)

// value returns what p points to, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// isFolder says whether metadata marks a blob as a directory, which has the directory's own name: Hadoop writes such blobs, and
// accounts with a hierarchical namespace show their directories so.
func isFolder(metadata map[string]*string) bool {
	for k, v := range metadata {
		if strings.EqualFold(k, "hdi_isfolder") {
			return strings.EqualFold(value(v), "true")
		}
	}
	return false
}

// Get implements object.Client.
func (c *client) Get(ctx context.Context, key string, off, n int64) (object.Body, error) {
	api, err := c.load()
	if err != nil {
		return object.Body{}, err
	}
	var o blob.DownloadStreamOptions
	if n >= 0 {
		o.Range = blob.HTTPRange{Offset: off, Count: n}
	}
	out, err := api.NewBlobClient(key).DownloadStream(ctx, &o)
	if err != nil {
		return object.Body{}, settle(ctx, err)
	}
	refuse := func(f *object.Failure) (object.Body, error) {
		out.Body.Close()
		return object.Body{}, f
	}
	if isFolder(out.Metadata) {
		return refuse(&object.Failure{Kind: storage.ErrNotFound, Err: errors.New("a directory")})
	}
	body := object.Body{ReadCloser: out.Body, Len: -1,
		Attr: object.Attr{Key: key, ModTime: value(out.LastModified), Tag: string(value(out.ETag))}}
	if out.ContentLength != nil {
		body.Len, body.Size = *out.ContentLength, *out.ContentLength
	}
	if n >= 0 && out.ContentRange == nil {
		return refuse(&object.Failure{Kind: storage.ErrUnsupported, Err: errors.New("the server ignores ranges")})
	}
	if n >= 0 {
		body.Size = object.RangeSize(*out.ContentRange)
	}
	return body, nil
}

// Head implements object.Client.
func (c *client) Head(ctx context.Context, key string) (object.Attr, error) {
	api, err := c.load()
	if err != nil {
		return object.Attr{}, err
	}
	out, err := api.NewBlobClient(key).GetProperties(ctx, nil)
	if err != nil {
		return object.Attr{}, settle(ctx, err)
	}
	if isFolder(out.Metadata) {
		return object.Attr{}, &object.Failure{Kind: storage.ErrNotFound, Err: errors.New("a directory")}
	}
	return object.Attr{Key: key, Size: value(out.ContentLength), ModTime: value(out.LastModified), Tag: string(value(out.ETag))}, nil
}

// List implements object.Client.
func (c *client) List(ctx context.Context, prefix, token string, limit int) (object.Page, error) {
	api, err := c.load()
	if err != nil {
		return object.Page{}, err
	}
	o := &container.ListBlobsHierarchyOptions{Prefix: &prefix, Include: container.ListBlobsInclude{Metadata: true}}
	if token != "" {
		o.Marker = &token
	}
	if limit > 0 {
		o.MaxResults = to.Ptr(int32(limit))
	}
	out, err := api.NewListBlobsHierarchyPager("/", o).NextPage(ctx)
	if err != nil {
		return object.Page{}, settle(ctx, err)
	}
	var page object.Page
	if s := out.Segment; s != nil {
		for _, b := range s.BlobItems {
			name, p := value(b.Name), b.Properties
			if isFolder(b.Metadata) {
				page.Prefixes = append(page.Prefixes, strings.TrimSuffix(name, "/")+"/")
				continue
			}
			if p == nil {
				return object.Page{}, &object.Failure{Kind: storage.ErrUnsupported, Err: errors.New("a listing without properties")}
			}
			page.Objects = append(page.Objects, object.Attr{Key: name, Size: value(p.ContentLength),
				ModTime: value(p.LastModified), Tag: string(value(p.ETag))})
		}
		for _, p := range s.BlobPrefixes {
			page.Prefixes = append(page.Prefixes, value(p.Name))
		}
	}
	page.Next = value(out.NextMarker)
	return page, nil
}

// Put implements object.Client.
func (c *client) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, tag string) (object.Attr, error) {
	api, err := c.load()
	if err != nil {
		return object.Attr{}, err
	}
	var when blob.ModifiedAccessConditions
	if tag == "" {
		when.IfNoneMatch = to.Ptr(azcore.ETagAny)
	} else {
		if !strings.HasSuffix(tag, `"`) {
			tag = `"` + tag + `"`
		}
		when.IfMatch = to.Ptr(azcore.ETag(tag))
	}
	out, err := api.NewBlockBlobClient(key).Upload(ctx, readSeekCloser{body},
		&blockblob.UploadOptions{AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &when}})
	if err != nil {
		return object.Attr{}, settle(ctx, err)
	}
	return object.Attr{Key: key, Size: size, ModTime: value(out.LastModified), Tag: string(value(out.ETag))}, nil
}

// readSeekCloser closes nothing: who opened it does.
type readSeekCloser struct{ io.ReadSeeker }

// Close implements io.Closer.
func (readSeekCloser) Close() error { return nil }

// Delete implements object.Client.
func (c *client) Delete(ctx context.Context, key string) error {
	api, err := c.load()
	if err != nil {
		return err
	}
	_, err = api.NewBlobClient(key).Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)})
	if err == nil {
		return nil
	}
	if err = settle(ctx, err); errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

// maxReason bounds how much is shown of why no credentials were found.
const maxReason = 500

// settle gives an SDK error its meaning.
func settle(ctx context.Context, err error) error {
	var content *storage.ContentError
	var login *azidentity.AuthenticationFailedError
	var none interface{ NonRetriable() }
	var answer *azcore.ResponseError
	switch {
	case errors.As(err, &content):
		return err
	case errors.As(err, &answer):
		return fromAnswer(answer)
	case errors.As(err, &login), errors.As(err, &none) && strings.Contains(err.Error(), "Credential"):
		text := strings.Join(strings.Fields(err.Error()), " ") // one line, of a page
		return &object.Failure{Kind: storage.ErrRefused, Err: errors.New("no credentials: " + strings.ToValidUTF8(text[:min(len(text), maxReason)], "")),
			Hint: "set AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_KEY, log in, or run where an identity gives credentials"}
	}
	return object.NoAnswer(ctx, err, endpointSetting)
}

// fromAnswer says what an error answer of the service means.
func fromAnswer(answer *azcore.ResponseError) *object.Failure {
	request := ""
	if answer.RawResponse != nil {
		request = answer.RawResponse.Header.Get("X-Ms-Request-Id")
	}
	f := object.FromStatus(answer.StatusCode, answer.ErrorCode, request)
	switch answer.ErrorCode {
	case "ContainerNotFound":
		f.Kind = object.ErrNoBucket
	case "BlobAlreadyExists":
		f.Kind = object.ErrPrecondition
	case "ContainerBeingDeleted":
		f.Kind, f.Hint = object.ErrNoBucket, "the container is being deleted"
	case "ServerBusy":
		return f.Throttled()
	case "AuthenticationFailed":
		f.Hint = "the key or signature is wrong or expired, or this machine's clock is wrong by more than 15 minutes"
	case "BlobArchived", "BlobBeingRehydrated":
		f.Kind, f.Hint = storage.ErrRefused, "the blob is in an archive: rehydrate it there first"
	case "LeaseIdMissing", "LeaseIdMismatchWithBlobOperation":
		f.Kind, f.Hint = storage.ErrRefused, "somebody holds a lease on the blob: break it there"
	case "RequestBodyTooLarge":
		f.Kind = storage.ErrUnsupported
	case "OperationTimedOut":
		f.Kind, f.Again = nil, time.Minute
	}
	return f
}
