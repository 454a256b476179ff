package gs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/object"

	"golang.org/x/oauth2"
)

// client is an object.Client on one bucket.
type client struct {
	bucket string
	load   func() (*session, error) // once
}

var _ object.Client = (*client)(nil)

// resource is the part of an object's JSON form that is of use here. Numbers are texts in it.
type resource struct {
	Name       string    `json:"name"`
	Size       string    `json:"size"`
	Updated    time.Time `json:"updated"`
	Generation string    `json:"generation"`
}

func (r resource) attr() (object.Attr, error) {
	size, err := strconv.ParseInt(r.Size, 10, 64)
	if err != nil || r.Generation == "" {
		return object.Attr{}, &object.Failure{Kind: storage.ErrUnsupported, Err: errors.New("an answer without size or generation")}
	}
	return object.Attr{Key: r.Name, Size: size, ModTime: r.Updated, Tag: r.Generation}, nil
}

// request is one call of the JSON API.
type request struct {
	method string
	path   string // below the endpoint, escaped
	query  url.Values
	header http.Header
	body   io.Reader
	size   int64 // of the body
}

// do makes the call. An answer other than want is an error, and the body of that is closed.
func (c *client) do(ctx context.Context, r request, want ...int) (*http.Response, error) {
	s, err := c.load()
	if err != nil {
		return nil, err
	}
	u := s.endpoint + r.path
	if len(r.query) > 0 {
		u += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u, r.body)
	if err != nil {
		return nil, &object.Failure{Kind: storage.ErrRefused, Err: err}
	}
	req.ContentLength = r.size
	if r.header != nil {
		req.Header = r.header
	}
	if s.project != "" {
		req.Header.Set("X-Goog-User-Project", s.project)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, noAnswer(ctx, err)
	}
	for _, w := range want {
		if resp.StatusCode == w {
			return resp, nil
		}
	}
	defer resp.Body.Close()
	return nil, fromAnswer(resp)
}

// call makes the call and decodes its JSON answer into out.
func (c *client) call(ctx context.Context, r request, out any) error {
	resp, err := c.do(ctx, r, http.StatusOK)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return noAnswer(ctx, err) // of a broken connection, most likely
	}
	return nil
}

func (c *client) object(key string) string {
	return "/storage/v1/b/" + url.PathEscape(c.bucket) + "/o/" + url.PathEscape(key)
}

// Get implements object.Client. Bytes come as they are stored, whatever their content encoding.
func (c *client) Get(ctx context.Context, key string, off, n int64) (object.Body, error) {
	r := request{method: http.MethodGet, path: c.object(key), query: url.Values{"alt": {"media"}},
		header: http.Header{"Accept-Encoding": {"gzip"}}}
	want := http.StatusOK
	if n >= 0 {
		r.header.Set("Range", "bytes="+strconv.FormatInt(off, 10)+"-"+strconv.FormatInt(off+n-1, 10))
		want = http.StatusPartialContent
	}
	resp, err := c.do(ctx, r, http.StatusOK, http.StatusPartialContent)
	if err != nil {
		return object.Body{}, err
	}
	if resp.StatusCode != want {
		resp.Body.Close()
		return object.Body{}, &object.Failure{Kind: storage.ErrUnsupported, Err: errors.New("the server ignores ranges")}
	}
	body := object.Body{ReadCloser: resp.Body, Len: resp.ContentLength,
		Attr: object.Attr{Key: key, Size: resp.ContentLength, Tag: resp.Header.Get("X-Goog-Generation")}}
	if n >= 0 {
		body.Size = object.RangeSize(resp.Header.Get("Content-Range"))
		return body, nil
	}
	at, err := http.ParseTime(resp.Header.Get("Last-Modified"))
	if err == nil && body.Tag != "" {
		body.ModTime = at
		return body, nil
	}
	a, err := c.Head(ctx, key)
	if err == nil && body.Tag != "" && a.Tag != body.Tag {
		err = &object.Failure{Again: time.Minute, Err: errors.New("the object changed while it was read")}
	}
	if err != nil {
		resp.Body.Close()
		return object.Body{}, err
	}
	body.Attr = a
	return body, nil
}

// Head implements object.Client.
func (c *client) Head(ctx context.Context, key string) (object.Attr, error) {
	var r resource
	if err := c.call(ctx, request{method: http.MethodGet, path: c.object(key)}, &r); err != nil {
		return object.Attr{}, err
	}
	return r.attr()
}

// List implements object.Client.
func (c *client) List(ctx context.Context, prefix, token string, limit int) (object.Page, error) {
	q := url.Values{"delimiter": {"/"}, "fields": {"items(name,size,updated,generation),prefixes,nextPageToken"}}
	if prefix != "" {
		q.Set("prefix", prefix)
	}
	if token != "" {
		q.Set("pageToken", token)
	}
	if limit > 0 {
		q.Set("maxResults", strconv.Itoa(limit))
	}
	var out struct {
		Items    []resource `json:"items"`
		Prefixes []string   `json:"prefixes"`
		Next     string     `json:"nextPageToken"`
	}
	err := c.call(ctx, request{method: http.MethodGet, path: "/storage/v1/b/" + url.PathEscape(c.bucket) + "/o", query: q}, &out)
	if err != nil {
		if errors.Is(err, storage.ErrNotFound) { // only the bucket can be missing here
			return object.Page{}, &object.Failure{Kind: object.ErrNoBucket, Status: 404}
		}
		return object.Page{}, err
	}
	page := object.Page{Prefixes: out.Prefixes, Next: out.Next}
	for _, r := range out.Items {
		a, err := r.attr()
		if err != nil {
			return object.Page{}, err
		}
		page.Objects = append(page.Objects, a)
	}
	return page, nil
}

// neverGeneration is a generation that no object has: they are times in microseconds.
const neverGeneration = "1"

// Put implements object.Client.
func (c *client) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, tag string) (object.Attr, error) {
	generation := "0" // absent
	if tag != "" {
		generation = tag
		if n, err := strconv.ParseInt(tag, 10, 64); err != nil || n <= 0 {
			generation = neverGeneration
		}
	}
	r := request{method: http.MethodPost, path: "/upload/storage/v1/b/" + url.PathEscape(c.bucket) + "/o",
		query:  url.Values{"uploadType": {"media"}, "name": {key}, "ifGenerationMatch": {generation}},
		header: http.Header{"Content-Type": {"application/octet-stream"}}, body: io.NopCloser(body), size: size}
	if size == 0 {
		r.body = http.NoBody
	}
	var out resource
	if err := c.call(ctx, r, &out); err != nil {
		return object.Attr{}, err
	}
	return out.attr()
}

// Delete implements object.Client.
func (c *client) Delete(ctx context.Context, key string) error {
	resp, err := c.do(ctx, request{method: http.MethodDelete, path: c.object(key)}, http.StatusNoContent, http.StatusOK)
	switch {
	case err == nil:
		return resp.Body.Close()
	case errors.Is(err, storage.ErrNotFound):
		return nil
	}
	return err
}

// noAnswer gives meaning to an error of the HTTP client, which may be one of getting a token.
func noAnswer(ctx context.Context, err error) error {
	var content *storage.ContentError
	if errors.As(err, &content) {
		return err
	}
	var token *oauth2.RetrieveError
	if errors.As(err, &token) && token.Response != nil && token.Response.StatusCode < 500 {
		return &object.Failure{Kind: storage.ErrRefused, Err: err, Hint: "the credentials are wrong or expired"}
	}
	return object.NoAnswer(ctx, err, endpointSetting)
}

// maxMessage bounds how much of an error answer is read.
const maxMessage = 64 << 10

// fromAnswer says what an error answer of the service means.
func fromAnswer(resp *http.Response) error {
	var said struct {
		Error struct {
			Message string `json:"message"`
			Errors  []struct {
				Reason string `json:"reason"`
			} `json:"errors"`
		} `json:"error"`
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
	if err == nil && json.Unmarshal(text, &said) != nil {
		said.Error.Message = strings.TrimSpace(string(text[:min(len(text), 200)])) // media answers are plain text
	}
	reason := ""
	if len(said.Error.Errors) > 0 {
		reason = said.Error.Errors[0].Reason
	}
	f := object.FromStatus(resp.StatusCode, reason, resp.Header.Get("X-Guploader-Uploadid"))
	switch {
	case resp.StatusCode == 404 && strings.Contains(said.Error.Message, "bucket does not exist"):
		f.Kind = object.ErrNoBucket
	case strings.HasSuffix(reason, "ateLimitExceeded"), reason == "slowDown":
		return f.Throttled()
	case resp.StatusCode == 403 && strings.HasSuffix(reason, "uotaExceeded"):
		f.Hint = "raise the project's quota, or wait; the same command can be run again, nothing is lost"
	case resp.StatusCode == 409: // "conflict": another request was under way
		f.Kind, f.Again = nil, time.Minute
	}
	if resp.StatusCode != 404 && resp.StatusCode != 412 && said.Error.Message != "" {
		f.Err = errors.New(said.Error.Message)
	}
	return f
}
