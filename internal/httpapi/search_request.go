package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"tidemark/internal/arrowx"
	"tidemark/search"
)

// query is the body of a search. One of Key, Vector and Vectors is set.
type query struct {
	Index      string       `json:"index"`
	Key        *string      `json:"key"`
	Vector     []*float64   `json:"vector"`
	Vectors    [][]*float64 `json:"vectors"`
	K          int          `json:"k"`
	Mode       string       `json:"mode"`
	NProbes    int          `json:"nprobes"`
	Policy     string       `json:"policy"`
	Partitions []string     `json:"partitions"`
	Columns    []string     `json:"columns"`
}

// members says what each member of the body is.
var members = map[string]string{"index": "a string", "key": "a string", "vector": "an array of numbers", "vectors": "an array of arrays of numbers",
	"k": "a whole number", "mode": "a string", "nprobes": "a whole number", "policy": "a string", "partitions": "an array of strings", "columns": "an array of strings"}

const (
	// maxK bounds the rows of an answer.
	maxK = 10_000

	exampleQuery = `send a JSON object such as {"key": "k1", "k": 10}, {"vector": [0.1, …]} or {"vectors": [[0.1, …], …]}`
	takenQuery   = "this takes index, key, vector, vectors, k, mode, nprobes, policy, partitions, columns; a timeout is part of the URL: ?timeout=30s"
)

// readQuery reads the body of a search.
func readQuery(r *http.Request) (query, error) {
	q := query{K: 10}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return q, &failure{http.StatusUnsupportedMediaType, fmt.Errorf("the body is encoded as %q", cut(coding, maxEcho)), "send the body as it is, not compressed", "header Content-Encoding"}
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&q); err != nil {
		return q, wrongBody(err)
	}
	var large *http.MaxBytesError
	switch _, err := dec.Token(); {
	case errors.Is(err, io.EOF):
	case errors.As(err, &large):
		return q, err
	default:
		return q, badAt("body", "send one JSON object", "something follows the query")
	}
	return q, nil
}

// wrongBody says what is wrong with a body that is no query.
func wrongBody(err error) error {
	var large *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &large):
		return err
	case errors.As(err, &kind) && kind.Field != "":
		want := members[kind.Field]
		return badAt("body "+kind.Field, kind.Field+" is "+want, "read query: a %s in %s cannot be taken for %s", cut(kind.Value, maxEcho), kind.Field, want)
	case errors.As(err, &kind):
		return badAt("body", exampleQuery, "read query: the body is a JSON %s, not an object", cut(kind.Value, maxEcho))
	case errors.As(err, &syntax):
		return badAt("body", exampleQuery+"; JSON has no NaN and no Infinity", "read query: no JSON at byte %d: %w", syntax.Offset, err)
	case errors.Is(err, io.EOF):
		return badAt("body", exampleQuery, "read query: the body is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return badAt("body", exampleQuery, "read query: the body ends before its JSON does")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		name = cut(name, maxEcho)
		return badAt("body "+strings.Trim(name, `"`), takenQuery, "read query: there is no member %s", name)
	}
	return badAt("body", exampleQuery, "read query: %w", err)
}

// request checks what can be checked without the table. vectors is nil but for a batch.
func (q query) request() (req search.Request, vectors [][]float64, err error) {
	given := 0
	for _, is := range []bool{q.Key != nil, q.Vector != nil, q.Vectors != nil} {
		if is {
			given++
		}
	}
	switch {
	case given == 0:
		return req, nil, badAt("body", exampleQuery, "none of key, vector and vectors is given")
	case given > 1:
		return req, nil, badAt("body", "give one of them", "%d of key, vector and vectors are given", given)
	case q.Key != nil && *q.Key == "":
		return req, nil, badAt("body key", "give the record key of a row, or a vector", "key is empty")
	case q.K < 1 || q.K > maxK:
		return req, nil, badAt("body k", fmt.Sprintf("give k from 1 to %d, or leave it out for 10", maxK), "k is %d, want 1 to %d", q.K, maxK)
	case q.NProbes < 0:
		return req, nil, badAt("body nprobes", "leave nprobes out to use the index's option", "nprobes is %d, want at least 1", q.NProbes)
	}
	req = search.Request{Index: q.Index, K: q.K, Mode: search.Mode(q.Mode), NProbes: q.NProbes, Policy: search.Policy(strings.ToUpper(q.Policy)),
		Partitions: q.Partitions, Columns: q.Columns}
	if q.Key != nil {
		req.Key = *q.Key
	}
	if q.Vector != nil {
		if req.Vector, err = numbers(q.Vector); err != nil {
			return req, nil, badAt("body vector", "send numbers only", "%w", err)
		}
	}
	if q.Vectors != nil {
		vectors = make([][]float64, len(q.Vectors))
	}
	for i, v := range q.Vectors {
		if vectors[i], err = numbers(v); err != nil {
			return req, nil, badAt("body vectors", "send numbers only", "query %d of %d: %w", i+1, len(q.Vectors), err)
		}
	}
	return req, vectors, nil
}

func numbers(items []*float64) ([]float64, error) {
	out := make([]float64, len(items))
	for i, x := range items {
		if x == nil {
			return nil, fmt.Errorf("component %d of the vector is null", i)
		}
		out[i] = *x
	}
	return out, nil
}

// wantsArrow chooses the form of the answer by the Accept header: an Arrow stream where it is named and not liked less than JSON, else JSON.
// Who takes neither gets 406: a program that waits for a file or a table of another kind could not read the answer.
func wantsArrow(r *http.Request) (bool, error) {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(accept) == "" {
		return false, nil
	}
	likes := map[string]float64{}
	for _, part := range strings.Split(accept, ",") {
		media, params, _ := strings.Cut(part, ";")
		likes[strings.ToLower(strings.TrimSpace(media))] = weight(params)
	}
	text, named := -1.0, false
	for _, media := range []string{"application/json", "application/*", "*/*"} {
		if q, ok := likes[media]; ok && !named {
			text, named = q, true
		}
	}
	switch arrow := likes[arrowx.ContentType]; {
	case arrow > 0 && arrow >= text:
		return true, nil
	case text > 0:
		return false, nil
	}
	return false, &failure{http.StatusNotAcceptable, fmt.Errorf("no answer can be given as %s", cut(oneLine(accept), maxEcho)), "accept application/json, or " + arrowx.ContentType, "header Accept"}
}

// weight is the q of a media range; 1 where there is none from 0 to 1.
func weight(params string) float64 {
	_, values, err := mime.ParseMediaType("x/x;" + params)
	if err != nil {
		return 1
	}
	q, err := strconv.ParseFloat(values["q"], 64)
	if err != nil || !(q >= 0 && q <= 1) { // NaN is neither
		return 1
	}
	return q
}
