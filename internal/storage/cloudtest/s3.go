package cloudtest

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Credentials and region of the S3 server. Reader may only read.
const (
	Writer = "writer"
	Reader = "reader"
	Secret = "secret"
	Region = "eu-north-1"
)

// S3 starts a server that speaks S3 with path-style addresses.
func S3(t testing.TB) *Server {
	return start(t, func(s *Server) http.HandlerFunc { return s.s3 })
}

// S3TLS is S3 over TLS, where the SDK sends checksums behind the content.
func S3TLS(t testing.TB) *Server {
	return startWith(t, func(s *Server) http.HandlerFunc { return s.s3 }, httptest.NewTLSServer)
}

func etag(data []byte) string {
	sum := md5.Sum(data)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// s3Error answers as S3 does: XML, except to HEAD.
func s3Error(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, message)
	}
}

func (s *Server) s3(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Amz-Request-Id", "REQ"+strconv.FormatInt(s.puts.Load(), 10))
	auth := r.Header.Get("Authorization")
	scope := strings.Split(strings.TrimPrefix(auth, "AWS4-HMAC-SHA256 Credential="), "/")
	switch {
	case len(scope) < 4 || scope[0] != Writer && scope[0] != Reader:
		s3Error(w, r, 403, "InvalidAccessKeyId", "no such key")
		return
	case scope[2] != Region:
		w.Header().Set("X-Amz-Bucket-Region", Region)
		s3Error(w, r, 400, "AuthorizationHeaderMalformed", "the region is wrong")
		return
	case scope[0] == Reader && r.Method != http.MethodGet && r.Method != http.MethodHead:
		s3Error(w, r, 403, "AccessDenied", "Access Denied")
		return
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	switch {
	case bucket != Bucket:
		s3Error(w, r, 404, "NoSuchBucket", "The specified bucket does not exist")
	case key == "" && r.Method == http.MethodGet && q.Get("list-type") == "2" && q.Get("delimiter") == "/":
		s.s3List(w, r)
	case key == "":
		s.unknown(w, r)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		o, ok := s.get(key)
		if !ok {
			s3Error(w, r, 404, "NoSuchKey", "The specified key does not exist.")
			return
		}
		w.Header().Set("ETag", etag(o.data))
		w.Header().Set("Last-Modified", o.mod.UTC().Format(http.TimeFormat))
		span(w, r, r.Header.Get("Range"), o.data, func() { s3Error(w, r, 416, "InvalidRange", "not satisfiable") })
	case r.Method == http.MethodPut:
		s.s3Put(w, r, key)
	case r.Method == http.MethodDelete:
		s.remove(key)
		w.WriteHeader(http.StatusNoContent)
	default:
		s.unknown(w, r)
	}
}

func (s *Server) s3Put(w http.ResponseWriter, r *http.Request, key string) {
	data, err := io.ReadAll(r.Body)
	if err != nil || int64(len(data)) != r.ContentLength {
		s3Error(w, r, 400, "IncompleteBody", "fewer bytes than announced")
		return
	}
	data, ok := s3Content(r.Header, data)
	if !ok {
		s3Error(w, r, 400, "BadDigest", "checksums differ")
		return
	}
	absent, match := r.Header.Get("If-None-Match"), r.Header.Get("If-Match")
	if (absent == "*") == (match != "") {
		s.unknown(w, r)
		return
	}
	gone := false
	o, done := s.store(key, data, func(o object, ok bool) bool {
		gone = !ok
		return ok == (match != "") && (!ok || etag(o.data) == match)
	})
	switch {
	case done:
		w.Header().Set("ETag", etag(o.data))
	case match != "" && gone:
		s3Error(w, r, 404, "NoSuchKey", "The specified key does not exist.")
	default:
		s3Error(w, r, 412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
	}
}

// s3Content takes the content out of a request's body and checks its checksums and its length.
func s3Content(h http.Header, body []byte) ([]byte, bool) {
	crcOf := func(data []byte) string {
		return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(data)))
	}
	if sent := h.Get("X-Amz-Content-Sha256"); sent != "STREAMING-UNSIGNED-PAYLOAD-TRAILER" {
		sum := sha256.Sum256(body)
		return body, (sent == "UNSIGNED-PAYLOAD" || sent == hex.EncodeToString(sum[:])) && h.Get("X-Amz-Checksum-Crc32") == crcOf(body)
	}
	// Chunks, each behind its length in hex, one of length 0, the checksum.
	var data []byte
	for {
		line, rest, ok := bytes.Cut(body, []byte("\r\n"))
		n, err := strconv.ParseInt(string(line), 16, 32)
		if !ok || err != nil || n > 0 && int64(len(rest)) < n+2 {
			return nil, false
		}
		if n == 0 {
			return data, strings.TrimSpace(string(rest)) == "x-amz-checksum-crc32:"+crcOf(data) &&
				h.Get("X-Amz-Decoded-Content-Length") == strconv.Itoa(len(data))
		}
		data, body = append(data, rest[:n]...), rest[n+2:]
	}
}

func (s *Server) s3List(w http.ResponseWriter, r *http.Request) {
	type content struct {
		Key, LastModified, ETag string
		Size                    int
	}
	type common struct{ Prefix string }
	out := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []content
		CommonPrefixes        []common
	}{}
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("max-keys"))
	after, err := base64.StdEncoding.DecodeString(q.Get("continuation-token"))
	if err != nil {
		s3Error(w, r, 400, "InvalidArgument", "The continuation token provided is incorrect")
		return
	}
	objects, prefixes, next := s.list(q.Get("prefix"), string(after), limit)
	for _, o := range objects {
		out.Contents = append(out.Contents, content{o.key, o.mod.UTC().Format(time.RFC3339), etag(o.data), len(o.data)})
	}
	for _, p := range prefixes {
		out.CommonPrefixes = append(out.CommonPrefixes, common{p})
	}
	if next != "" {
		out.IsTruncated, out.NextContinuationToken = true, base64.StdEncoding.EncodeToString([]byte(next))
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(out)
}
