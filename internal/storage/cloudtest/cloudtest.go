// Package cloudtest runs small object-store servers inside a test: what tidemark needs of the S3, Cloud Storage JSON and Azure
// Blob APIs, over real HTTP, with real conditions, ranges and pages.
//
// It owns the servers' honesty: a condition is checked and applied under one lock, checksums and lengths of what is sent are
// verified, unknown requests fail the test. It refuses to be complete; the same suite also runs against real servers where a
// machine has them. It may import the standard library only.
//
// Invariant: what a server does not understand is an error of the test, never a success.
package cloudtest

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Server is one server with one bucket. See S3, GCS and Azure.
type Server struct {
	// URL is the endpoint, without a slash at its end.
	URL string

	t    testing.TB
	http *httptest.Server
	hook atomic.Pointer[Hook]
	puts atomic.Int64 // for etags that never repeat

	mu       sync.Mutex // guards the fields below
	objects  map[string]object
	pageSize int
	requests []string
}

// Hook is called in place of serving a request; serve serves it. It may answer itself, serve and then drop the answer, or
// change it.
type Hook func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc)

// Bucket is the name of the one bucket or container there is.
const Bucket = "bucket"

type object struct {
	data []byte
	mod  time.Time
	gen  int64             // grows with every put
	meta map[string]string // Azure's
}

func start(t testing.TB, handler func(s *Server) http.HandlerFunc) *Server {
	return startWith(t, handler, httptest.NewServer)
}

func startWith(t testing.TB, handler func(s *Server) http.HandlerFunc, listen func(http.Handler) *httptest.Server) *Server {
	s := &Server{t: t, objects: map[string]object{}, pageSize: 1000}
	serve := handler(s)
	s.http = listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
		s.mu.Unlock()
		if h := s.hook.Load(); h != nil && *h != nil {
			(*h)(w, r, serve)
			return
		}
		serve(w, r)
	}))
	s.URL = s.http.URL
	t.Cleanup(s.http.Close)
	return s
}

// Transport trusts the server's certificate, where it has one.
func (s *Server) Transport() http.RoundTripper { return s.http.Client().Transport }

// SetHook makes every later request go through h; nil takes it away.
func (s *Server) SetHook(h Hook) { s.hook.Store(&h) }

// SetPageSize bounds the names in a page of a listing. Defaults to 1000.
func (s *Server) SetPageSize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pageSize = n
}

// Requests returns "METHOD path?query" of every request so far.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Put writes an object behind the API, for tests that play another writer. meta is Azure's metadata, nil for none.
func (s *Server) Put(key string, data []byte, modTime time.Time, meta map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = object{data: data, mod: modTime, gen: s.puts.Add(1) + firstGeneration, meta: meta}
}

// PutTree writes all files below a local directory as objects below key, modification times included.
func (s *Server) PutTree(key, dir string) {
	s.t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		s.Put(key+"/"+filepath.ToSlash(rel), data, info.ModTime(), nil)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// Keys returns the names of all objects, sorted.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.objects))
	for k := range s.objects {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// firstGeneration looks like a time in microseconds, as Google's do.
const firstGeneration = 1_700_000_000_000_000

// Drop closes the client's connection without an answer.
func Drop(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close() // the client finds out
	}
}

// Lose serves a request and then drops the answer: the effect is there, the client cannot know.
func Lose(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	serve(httptest.NewRecorder(), r)
	Drop(w)
}

// Cut serves a request and closes the connection after n bytes of the body.
func Cut(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc, n int) {
	rec := httptest.NewRecorder()
	serve(rec, r)
	conn, buf, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(buf, "HTTP/1.1 %d %s\r\n", rec.Code, http.StatusText(rec.Code))
	if rec.Header().Get("Content-Length") == "" {
		fmt.Fprintf(buf, "Content-Length: %d\r\n", rec.Body.Len())
	}
	_ = rec.Header().Write(buf)
	body := rec.Body.Bytes()
	fmt.Fprintf(buf, "\r\n%s", body[:min(n, len(body))])
	_ = buf.Flush()
}

// store applies a conditional put: match decides on what is there.
func (s *Server) store(key string, data []byte, match func(o object, ok bool) bool) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.objects[key]
	if !match(old, ok) {
		return old, false
	}
	o := object{data: data, mod: time.Now(), gen: s.puts.Add(1) + firstGeneration}
	s.objects[key] = o
	return o, true
}

func (s *Server) get(key string) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	return o, ok
}

func (s *Server) remove(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.objects[key]
	delete(s.objects, key)
	return ok
}

// named is an object of a listing.
type named struct {
	key string
	object
}

// list returns a page of what is below prefix, from the name after on; next is the last name of a page that is not the last.
// Names that go on behind a slash are grouped.
func (s *Server) list(prefix, after string, limit int) (objects []named, prefixes []string, next string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	seen := map[string]bool{}
	for k := range s.objects {
		rest, ok := strings.CutPrefix(k, prefix)
		if !ok {
			continue
		}
		if dir, _, deeper := strings.Cut(rest, "/"); deeper {
			k = prefix + dir + "/"
		}
		if k > after && !seen[k] {
			seen[k] = true
			names = append(names, k)
		}
	}
	sort.Strings(names)
	if limit <= 0 || limit > s.pageSize {
		limit = s.pageSize
	}
	if len(names) > limit {
		names = names[:limit]
		next = names[limit-1]
	}
	for _, k := range names {
		if o, ok := s.objects[k]; ok && (k == prefix || !strings.HasSuffix(k, "/")) {
			objects = append(objects, named{k, o})
		} else {
			prefixes = append(prefixes, k)
		}
	}
	return objects, prefixes, next
}

// span answers a read with the range that was asked for, as all three do; refuse answers one behind the end.
func span(w http.ResponseWriter, r *http.Request, asked string, data []byte, refuse func()) {
	status := http.StatusOK
	if asked != "" {
		var from, to int
		if n, err := fmt.Sscanf(asked, "bytes=%d-%d", &from, &to); n != 2 || err != nil || to < from {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if from >= len(data) {
			refuse()
			return
		}
		to = min(to, len(data)-1)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(data)))
		data, status = data[from:to+1], http.StatusPartialContent
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(data)
	}
}

// unknown fails the test: the server does not know such a request.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	s.t.Errorf("request that this server does not know: %s %s %v", r.Method, r.URL, r.Header)
	w.WriteHeader(http.StatusNotImplemented)
}
