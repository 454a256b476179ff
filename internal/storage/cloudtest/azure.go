package cloudtest

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Account and key of the Azure server.
const (
	Account = "account"
	Key     = "a2V5" // base64
)

// Azure starts a server that speaks the Blob API; the account is in the path, its URL ends in it.
func Azure(t testing.TB) *Server {
	s := start(t, func(s *Server) http.HandlerFunc { return s.azure })
	s.URL += "/" + Account
	return s
}

func azureError(w http.ResponseWriter, r *http.Request, status int, code string) {
	w.Header().Set("X-Ms-Error-Code", code)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>said by the test</Message></Error>`, code)
	}
}

func azureTag(o object) string { return fmt.Sprintf(`"0x%X"`, o.gen) }

func (s *Server) azure(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Ms-Request-Id", "REQ"+strconv.FormatInt(s.puts.Load(), 10))
	if !strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey "+Account+":") {
		azureError(w, r, 403, "AuthenticationFailed")
		return
	}
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"+Account+"/"), "/")
	q := r.URL.Query()
	switch {
	case name != Bucket:
		azureError(w, r, 404, "ContainerNotFound")
	case key == "" && r.Method == http.MethodGet && q.Get("comp") == "list" && q.Get("delimiter") == "/":
		s.azureList(w, r)
	case key == "":
		s.unknown(w, r)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		o, ok := s.get(key)
		if !ok {
			azureError(w, r, 404, "BlobNotFound")
			return
		}
		w.Header().Set("ETag", azureTag(o))
		w.Header().Set("Last-Modified", o.mod.UTC().Format(http.TimeFormat))
		w.Header().Set("X-Ms-Blob-Type", "BlockBlob")
		for k, v := range o.meta {
			w.Header().Set("X-Ms-Meta-"+k, v)
		}
		asked := r.Header.Get("X-Ms-Range")
		if asked == "" {
			asked = r.Header.Get("Range")
		}
		span(w, r, asked, o.data, func() { azureError(w, r, 416, "InvalidRange") })
	case r.Method == http.MethodPut && len(q) == 0 && r.Header.Get("X-Ms-Blob-Type") == "BlockBlob":
		s.azurePut(w, r, key)
	case r.Method == http.MethodDelete:
		if !s.remove(key) {
			azureError(w, r, 404, "BlobNotFound")
			return
		}
		w.WriteHeader(http.StatusAccepted)
	default:
		s.unknown(w, r)
	}
}

func (s *Server) azurePut(w http.ResponseWriter, r *http.Request, key string) {
	data, err := io.ReadAll(r.Body)
	if err != nil || int64(len(data)) != r.ContentLength {
		azureError(w, r, 400, "InvalidInput")
		return
	}
	absent, match := r.Header.Get("If-None-Match"), r.Header.Get("If-Match")
	if (absent == "*") == (match != "") {
		s.unknown(w, r)
		return
	}
	o, done := s.store(key, data, func(o object, ok bool) bool {
		return ok == (match != "") && (!ok || azureTag(o) == match)
	})
	switch {
	case done:
		w.Header().Set("ETag", azureTag(o))
		w.Header().Set("Last-Modified", o.mod.UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusCreated)
	case absent == "*":
		azureError(w, r, 409, "BlobAlreadyExists")
	default:
		azureError(w, r, 412, "ConditionNotMet")
	}
}

func (s *Server) azureList(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("maxresults"))
	objects, prefixes, next := s.list(q.Get("prefix"), q.Get("marker"), limit)
	text := func(t string) string {
		var b strings.Builder
		_ = xml.EscapeText(&b, []byte(t))
		return b.String()
	}
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprint(w, `<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>`)
	for _, o := range objects {
		fmt.Fprintf(w, `<Blob><Name>%s</Name><Properties><Last-Modified>%s</Last-Modified><Etag>%s</Etag>`+
			`<Content-Length>%d</Content-Length><BlobType>BlockBlob</BlobType></Properties><Metadata>`,
			text(o.key), o.mod.UTC().Format(http.TimeFormat), text(azureTag(o.object)), len(o.data))
		for k, v := range o.meta {
			fmt.Fprintf(w, `<%s>%s</%s>`, k, text(v), k)
		}
		fmt.Fprint(w, `</Metadata></Blob>`)
	}
	for _, p := range prefixes {
		fmt.Fprintf(w, `<BlobPrefix><Name>%s</Name></BlobPrefix>`, text(p))
	}
	fmt.Fprintf(w, `</Blobs><NextMarker>%s</NextMarker></EnumerationResults>`, text(next))
}
