package cloudtest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// GCS starts a server that speaks the JSON API of Cloud Storage. Like emulators, it asks for no credentials.
func GCS(t testing.TB) *Server {
	return start(t, func(s *Server) http.HandlerFunc { return s.gcs })
}

func gcsError(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"errors":[{"reason":%q,"domain":"global"}]}}`, status, message, reason)
}

type gcsObject struct {
	Name       string `json:"name"`
	Size       string `json:"size"`
	Updated    string `json:"updated"`
	Generation string `json:"generation"`
}

func gcsForm(key string, o object) gcsObject {
	return gcsObject{key, strconv.Itoa(len(o.data)), o.mod.UTC().Format(time.RFC3339Nano), strconv.FormatInt(o.gen, 10)}
}

func (s *Server) gcs(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Guploader-Uploadid", "REQ"+strconv.FormatInt(s.puts.Load(), 10))
	path, upload := strings.CutPrefix(r.URL.EscapedPath(), "/upload")
	rest, ok := strings.CutPrefix(path, "/storage/v1/b/")
	bucket, key, found := strings.Cut(rest, "/o")
	if !ok || !found {
		s.unknown(w, r)
		return
	}
	if bucket != Bucket {
		gcsError(w, 404, "notFound", "The specified bucket does not exist.")
		return
	}
	key, err := url.PathUnescape(strings.TrimPrefix(key, "/"))
	q := r.URL.Query()
	switch {
	case err != nil:
		s.unknown(w, r)
	case upload && r.Method == http.MethodPost && key == "" && q.Get("uploadType") == "multipart":
		s.gcsPut(w, r)
	case upload:
		s.unknown(w, r)
	case key == "" && r.Method == http.MethodGet && q.Get("delimiter") == "/":
		limit, _ := strconv.Atoi(q.Get("maxResults"))
		objects, prefixes, next := s.list(q.Get("prefix"), q.Get("pageToken"), limit)
		out := struct {
			Items    []gcsObject `json:"items,omitempty"`
			Prefixes []string    `json:"prefixes,omitempty"`
			Next     string      `json:"nextPageToken,omitempty"`
		}{Prefixes: prefixes, Next: next}
		for _, o := range objects {
			out.Items = append(out.Items, gcsForm(o.key, o.object))
		}
		_ = json.NewEncoder(w).Encode(out)
	case key != "" && r.Method == http.MethodGet:
		o, ok := s.get(key)
		switch {
		case !ok && q.Get("alt") == "media":
			http.Error(w, "No such object: "+Bucket+"/"+key, 404)
		case !ok:
			gcsError(w, 404, "notFound", "No such object: "+Bucket+"/"+key)
		case q.Get("alt") == "media":
			w.Header().Set("X-Goog-Generation", strconv.FormatInt(o.gen, 10))
			w.Header().Set("X-Goog-Hash", "crc32c="+gcsSum(o.data))
			w.Header().Set("Last-Modified", o.mod.UTC().Format(http.TimeFormat))
			span(w, r, r.Header.Get("Range"), o.data, func() { w.WriteHeader(http.StatusRequestedRangeNotSatisfiable) })
		default:
			_ = json.NewEncoder(w).Encode(gcsForm(key, o))
		}
	case key != "" && r.Method == http.MethodDelete:
		if !s.remove(key) {
			gcsError(w, 404, "notFound", "No such object: "+Bucket+"/"+key)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		s.unknown(w, r)
	}
}

// gcsPut takes a form of two parts: the object's description, then its content.
func (s *Server) gcsPut(w http.ResponseWriter, r *http.Request) {
	var said struct{ Name, CRC32C string }
	var data []byte
	_, form, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil {
		parts := multipart.NewReader(r.Body, form["boundary"])
		if data, err = nextPart(parts); err == nil {
			err = json.Unmarshal(data, &said)
		}
		if err == nil {
			data, err = nextPart(parts)
		}
		if err == nil {
			if _, end := parts.NextPart(); end != io.EOF {
				err = fmt.Errorf("no end: %w", end)
			}
		}
	}
	if err != nil {
		gcsError(w, 400, "badRequest", "Malformed multipart body: "+err.Error())
		return
	}
	q := r.URL.Query()
	want, err := strconv.ParseInt(q.Get("ifGenerationMatch"), 10, 64)
	if err != nil || said.Name == "" || said.CRC32C == "" {
		s.unknown(w, r)
		return
	}
	if said.CRC32C != gcsSum(data) {
		gcsError(w, 400, "invalid", "Provided CRC32C does not match the content")
		return
	}
	o, done := s.store(said.Name, data, func(o object, ok bool) bool { return ok == (want != 0) && o.gen == want })
	if !done {
		gcsError(w, 412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
		return
	}
	_ = json.NewEncoder(w).Encode(gcsForm(said.Name, o))
}

func nextPart(parts *multipart.Reader) ([]byte, error) {
	p, err := parts.NextPart()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(p)
}

// gcsSum is a content's checksum as the service writes it.
func gcsSum(data []byte) string {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}
