package gs

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/object"

	"cloud.google.com/go/auth"
	sdk "cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
)

// client is an object.Client on one bucket.
type client struct {
	load func() (*sdk.BucketHandle, error) // once
}

var _ object.Client = (*client)(nil)

func attr(a *sdk.ObjectAttrs) object.Attr {
	return object.Attr{Key: a.Name, Size: a.Size, ModTime: a.Updated, Tag: strconv.FormatInt(a.Generation, 10)}
}

// Get implements object.Client.
func (c *client) Get(ctx context.Context, key string, off, n int64) (object.Body, error) {
	bucket, err := c.load()
	if err != nil {
		return object.Body{}, err
	}
	seen := &read{}
	r, err := bucket.Object(key).NewRangeReader(context.WithValue(ctx, readKey{}, seen), max(off, 0), n)
	if seen.status == 200 && n >= 0 { // the client says nothing of that when the range starts at the first byte
		if err == nil {
			_ = r.Close() // only read from
		}
		return object.Body{}, &object.Failure{Kind: storage.ErrUnsupported, Err: errors.New("the server ignores ranges")}
	}
	if err != nil {
		return object.Body{}, settle(ctx, err)
	}
	body := object.Body{ReadCloser: r, Len: r.Remain(), Attr: object.Attr{Key: key, Size: r.Attrs.Size, ModTime: r.Attrs.LastModified,
		Tag: strconv.FormatInt(r.Attrs.Generation, 10)}}
	if n >= 0 || r.Attrs.Generation > 0 && !body.ModTime.IsZero() {
		return body, nil
	}
	a, err := c.Head(ctx, key) // some emulators leave it out
	if err == nil && r.Attrs.Generation > 0 && a.Tag != body.Tag {
		err = &object.Failure{Again: time.Minute, Err: errors.New("the object changed while it was read")}
	}
	if err != nil {
		_ = r.Close() // only read from
		return object.Body{}, err
	}
	body.Attr = a
	return body, nil
}

// Head implements object.Client.
func (c *client) Head(ctx context.Context, key string) (object.Attr, error) {
	bucket, err := c.load()
	if err != nil {
		return object.Attr{}, err
	}
	a, err := bucket.Object(key).Attrs(ctx)
	if err != nil {
		return object.Attr{}, settle(ctx, err)
	}
	return attr(a), nil
}

// List implements object.Client.
func (c *client) List(ctx context.Context, prefix, token string, limit int) (object.Page, error) {
	bucket, err := c.load()
	if err != nil {
		return object.Page{}, err
	}
	q := &sdk.Query{Delimiter: "/", Prefix: prefix, Projection: sdk.ProjectionNoACL}
	if err := q.SetAttrSelection([]string{"Name", "Size", "Updated", "Generation"}); err != nil {
		return object.Page{}, &object.Failure{Kind: storage.ErrUnsupported, Err: err}
	}
	it := bucket.Objects(ctx, q)
	info := it.PageInfo()
	info.Token, info.MaxSize = token, limit
	var page object.Page
	for {
		a, err := it.Next()
		if err == iterator.Done {
			return page, nil
		}
		if err != nil {
			if err = settle(ctx, err); errors.Is(err, storage.ErrNotFound) { // only the bucket can be missing here
				return object.Page{}, &object.Failure{Kind: object.ErrNoBucket, Status: 404}
			}
			return object.Page{}, err
		}
		if a.Prefix != "" {
			page.Prefixes = append(page.Prefixes, a.Prefix)
		} else {
			page.Objects = append(page.Objects, attr(a))
		}
		if info.Remaining() == 0 { // the next one would be another request
			page.Next = info.Token
			return page, nil
		}
	}
}

// neverGeneration is a generation that no object has: they are times in microseconds.
const neverGeneration = 1

// castagnoli is the checksum that the service compares content with.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Put implements object.Client. The content is read twice, first for its checksum: with that the service refuses what was
// damaged or cut on its way, instead of keeping it.
func (c *client) Put(ctx context.Context, key string, body io.ReadSeeker, _ int64, tag string) (object.Attr, error) {
	bucket, err := c.load()
	if err != nil {
		return object.Attr{}, err
	}
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, body); err != nil {
		return object.Attr{}, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return object.Attr{}, err
	}
	when := sdk.Conditions{DoesNotExist: true}
	if tag != "" {
		when = sdk.Conditions{GenerationMatch: neverGeneration}
		if n, err := strconv.ParseInt(tag, 10, 64); err == nil && n > 0 {
			when.GenerationMatch = n
		}
	}
	w := bucket.Object(key).If(when).NewWriter(ctx)
	w.ChunkSize = 0 // one request, nothing kept
	w.ContentType = "application/octet-stream"
	w.CRC32C, w.SendCRC32C = sum.Sum32(), true
	_, err = io.Copy(w, body)
	var content *storage.ContentError
	if errors.As(err, &content) {
		//lint:ignore SA1019 a cancelled context would race with Close, which ends the content as if it were complete
		_ = w.CloseWithError(err)
		_ = w.Close() // waits for the request
		return object.Attr{}, err
	}
	if err := w.Close(); err != nil { // it also says why a write failed
		return object.Attr{}, settle(ctx, err)
	}
	return attr(w.Attrs()), nil
}

// Delete implements object.Client.
func (c *client) Delete(ctx context.Context, key string) error {
	bucket, err := c.load()
	if err != nil {
		return err
	}
	err = bucket.Object(key).Delete(ctx)
	if err == nil {
		return nil
	}
	if err = settle(ctx, err); errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

// settle gives an error of the client its meaning; it may be one of getting a token.
func settle(ctx context.Context, err error) error {
	var content *storage.ContentError
	var token *auth.Error
	var answer *googleapi.Error
	switch {
	case errors.As(err, &content):
		return err
	case errors.As(err, &token) && token.Response != nil && token.Response.StatusCode < 500:
		return &object.Failure{Kind: storage.ErrRefused, Err: err, Hint: "the credentials are wrong or expired"}
	case errors.As(err, &answer):
		return fromAnswer(answer)
	}
	return object.NoAnswer(ctx, err, endpointSetting)
}

// maxMessage bounds how much is shown of an error answer that is no JSON.
const maxMessage = 200

// fromAnswer says what an error answer of the service means.
func fromAnswer(answer *googleapi.Error) *object.Failure {
	reason, message := "", answer.Message
	if len(answer.Errors) > 0 {
		reason = answer.Errors[0].Reason
	}
	if message == "" { // answers to reads are plain text
		message = strings.TrimSpace(strings.ToValidUTF8(answer.Body[:min(len(answer.Body), maxMessage)], ""))
	}
	f := object.FromStatus(answer.Code, reason, answer.Header.Get("X-Guploader-Uploadid"))
	switch {
	case answer.Code == 404 && strings.Contains(message, "bucket does not exist"):
		f.Kind = object.ErrNoBucket
	case strings.HasSuffix(reason, "ateLimitExceeded"), reason == "slowDown":
		return f.Throttled()
	case answer.Code == 403 && strings.HasSuffix(reason, "uotaExceeded"):
		f.Hint = "raise the project's quota, or wait; the same command can be run again, nothing is lost"
	case answer.Code == 409: // "conflict": another request was under way
		f.Kind, f.Again = nil, time.Minute
	}
	if answer.Code != 404 && answer.Code != 412 && message != "" {
		f.Err = errors.New(message)
	}
	return f
}
