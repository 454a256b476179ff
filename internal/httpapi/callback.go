package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// readNotice reads a callback's body in one go, in memory that does not grow with it.
func readNotice(r io.Reader) (notice, error) {
	var n notice
	dec := json.NewDecoder(r)
	open, err := dec.Token()
	if err != nil {
		return n, fmt.Errorf("read callback: %w", err)
	}
	if open != json.Delim('{') {
		return n, errors.New("read callback: it is no JSON object")
	}
	wanted := map[string]*string{"commitTime": &n.CommitTime, "tableName": &n.TableName, "basePath": &n.BasePath}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return n, fmt.Errorf("read callback: %w", err)
		}
		to := wanted[key.(string)] // keys are texts, or Token fails
		depth := 0
		for {
			value, err := dec.Token()
			if err != nil {
				return n, fmt.Errorf("read callback: %w", err)
			}
			if to != nil {
				text, ok := value.(string)
				if !ok {
					return n, fmt.Errorf("read callback: %v is no text", key)
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
	}
	if _, err := dec.Token(); err != nil { // the end of the object
		return n, fmt.Errorf("read callback: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return n, errors.New("read callback: something follows it")
	}
	return n, nil
}

// accepted is the answer to a callback.
type accepted struct {
	Accepted bool   `json:"accepted"`
	Table    string `json:"table"`
	Instant  string `json:"instant"`
}

// maxTrace bounds a traceparent, which has 55 characters in its first version.
const maxTrace = 256

// callback takes Hudi's commit callback and wakes the table's loop. It answers at once, since the writer waits for the answer; after
// coverage with ?wait=covered.
func (s *Server) callback(r *http.Request) (int, any, error) {
	const hint = "this is for Hudi's commit callback: hoodie.write.commit.callback.http.url"
	n, err := readNotice(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return 0, nil, err
	case err != nil:
		return 0, nil, bad(http.StatusBadRequest, hint, "%w", err)
	case n.BasePath == "":
		return 0, nil, bad(http.StatusBadRequest, hint, "read callback: basePath is missing")
	}
	if err := coverage.CheckInstant(n.CommitTime); err != nil {
		return 0, nil, bad(http.StatusBadRequest, hint, "read callback: commitTime: %w", err)
	}
	wait := r.FormValue("wait")
	if wait != "" && wait != "covered" {
		return 0, nil, bad(http.StatusBadRequest, "wait=covered, or nothing", "wait=%q is not known", wait)
	}
	v, ok := s.cfg.Follower.Table(n.BasePath)
	h := source.Hint{Table: n.BasePath, Instant: n.CommitTime, Received: time.Now()}
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
