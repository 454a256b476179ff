package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"tidemark/coverage"
	"tidemark/indexer/source"
)

// notice is what is used of Hudi's commit callback: the rest repeats what the timeline says, or is lost on the wire.
type notice struct {
	CommitTime string // requested time
	TableName  string
	BasePath   string // as the writer gave it, with or without scheme
}

// Results of callbacks that are no hints, as metrics count them.
const (
	refusedCall   = "refused"    // without the secret, or not from this machine
	oversizedCall = "oversized"  // larger than the bound
	emptyCall     = "empty"      // without a body
	notJSON       = "not_json"   // not JSON, or cut
	notCommit     = "not_commit" // JSON of another shape, or with a query that is none
)

// malformed is what is wrong with a callback's body.
type malformed struct {
	result string // see above
	field  string // "" for the whole
	err    error
}

func (m *malformed) Error() string { return "read callback: " + m.err.Error() }
func (m *malformed) Unwrap() error { return m.err }

// readNotice reads a callback's body in one go, in memory that does not grow with it. What is wrong with it is a *malformed.
func readNotice(r io.Reader) (notice, error) {
	var n notice
	in := &counting{r: r}
	dec := json.NewDecoder(in)
	field := ""
	broken := func(err error) error {
		if errors.Is(err, io.EOF) && in.n == 0 {
			return &malformed{emptyCall, "", errors.New("the body is empty")}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("it is cut after %d bytes", in.n)
		}
		return &malformed{notJSON, field, err}
	}
	open, err := dec.Token()
	if err != nil {
		return n, broken(err)
	}
	if open != json.Delim('{') {
		return n, &malformed{notCommit, "", errors.New("it is no JSON object")}
	}
	wanted := map[string]*string{"commitTime": &n.CommitTime, "tableName": &n.TableName, "basePath": &n.BasePath}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return n, broken(err)
		}
		field = key.(string) // keys are texts, or Token fails
		to, depth := wanted[field], 0
		for {
			value, err := dec.Token()
			if err != nil {
				return n, broken(err)
			}
			if to != nil {
				text, ok := value.(string)
				if !ok {
					return n, &malformed{notCommit, field, fmt.Errorf("%s must be a text, not %s", field, kindOf(value))}
				}
				*to = text
			}
			switch value {
			case json.Delim('{'), json.Delim('['):
				depth++
			case json.Delim('}'), json.Delim(']'):
				depth--
			}
			if depth == 0 {
				break
			}
		}
		field = ""
	}
	if _, err := dec.Token(); err != nil { // the end of the object
		return n, broken(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return n, &malformed{notJSON, "", errors.New("something follows the object")}
	}
	if n.BasePath == "" {
		return n, &malformed{notCommit, "basePath", errors.New("basePath is missing")}
	}
	if n.CommitTime == "" {
		return n, &malformed{notCommit, "commitTime", errors.New("commitTime is missing")}
	}
	if err := coverage.CheckInstant(n.CommitTime); err != nil {
		return n, &malformed{notCommit, "commitTime", fmt.Errorf("commitTime: %w", err)}
	}
	return n, nil
}

// kindOf names the kind of a JSON value by its first token.
func kindOf(token json.Token) string {
	switch token {
	case nil:
		return "null"
	case json.Delim('{'):
		return "an object"
	case json.Delim('['):
		return "a list"
	}
	return fmt.Sprintf("%v", token)
}

// counting counts the bytes that are read.
type counting struct {
	r io.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// counted counts the callbacks that were no hints, by what was wrong.
func (s *Server) counted(h answer) answer {
	return func(r *http.Request) (int, any, error) {
		code, v, err := h(r)
		if result := resultOf(err); result != "" {
			s.mu.Lock()
			s.callbacks[result]++
			s.mu.Unlock()
		}
		return code, v, err
	}
}

// resultOf names what is wrong with a callback itself; "" if nothing is.
func resultOf(err error) string {
	var m *malformed
	var large *http.MaxBytesError
	var f *failure
	switch {
	case errors.As(err, &large):
		return oversizedCall
	case errors.As(err, &m):
		return m.result
	case !errors.As(err, &f):
		return ""
	case f.code == http.StatusUnauthorized || f.code == http.StatusForbidden:
		return refusedCall
	case f.code == http.StatusBadRequest:
		return notCommit
	}
	return ""
}

// Callbacks counts the callbacks so far that were no hints, by what was wrong with them: "refused", "oversized", "empty", "not_json", "not_commit".
func (s *Server) Callbacks() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.callbacks)
}

// accepted is the answer to a callback.
type accepted struct {
	Accepted bool   `json:"accepted"`
	Table    string `json:"table"`
	Instant  string `json:"instant"`
}

// SourceName is this server's name among the sources of hints.
const SourceName = "http"

// maxTrace bounds a traceparent, which has 55 characters in its first version.
const maxTrace = 256

// callback takes Hudi's commit callback and wakes the table's loop. It answers at once, since the writer waits for the answer; after
// coverage with ?wait=covered.
func (s *Server) callback(r *http.Request) (int, any, error) {
	query := r.URL.Query() // a form would be the body
	wait := query.Get("wait")
	switch {
	case wait != "" && wait != "covered":
		return 0, nil, badAt("query wait", "wait=covered, or nothing", "wait=%q is not known", wait)
	case wait == "" && query.Get("timeout")+query.Get("index") != "":
		return 0, nil, badAt("query wait", "add wait=covered, or leave timeout and index out", "timeout and index mean nothing without wait=covered")
	}
	if _, err := s.timeout(r, patience); err != nil {
		return 0, nil, err
	}
	n, err := readNotice(r.Body)
	var large *http.MaxBytesError
	var m *malformed
	switch {
	case errors.As(err, &large):
		return 0, nil, err
	case errors.As(err, &m):
		where := "body"
		if m.field != "" {
			where += " " + m.field
		}
		return 0, nil, badAt(where, "this is for Hudi's commit callback: hoodie.write.commit.callback.http.url", "%w", err)
	}
	v, ok := s.cfg.Follower.Table(n.BasePath)
	h := source.Hint{Source: SourceName, Table: n.BasePath, Instant: n.CommitTime, Received: time.Now()}
	if trace := r.Header.Get("traceparent"); len(trace) <= maxTrace {
		h.Trace = trace
	}
	s.cfg.Follower.Hint(h) // it counts and logs those of unknown tables
	if !ok {
		return 0, nil, bad(http.StatusNotFound, "add the table, or this path to its aliases, to the configuration", "no table at %q is followed", n.BasePath)
	}
	if wait == "" {
		return http.StatusOK, accepted{true, v.Name, n.CommitTime}, nil
	}
	return s.covered(r, v.Name, n.CommitTime)
}
