package kafka

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Reasons for which a message is set aside.
const (
	ReasonEmpty     = "empty"      // no value: a tombstone
	ReasonOversized = "oversized"  // larger than Config.MaxMessage
	ReasonNotJSON   = "not_json"   // not JSON, or cut
	ReasonShape     = "not_commit" // JSON of another shape: something else writes to the topic
	ReasonBatch     = "batch"      // a batch of messages that would take too much memory to unpack; counted once
)

// Reasons are all reasons for which a message is set aside.
var Reasons = []string{ReasonEmpty, ReasonOversized, ReasonNotJSON, ReasonShape, ReasonBatch}

// maxText bounds a path or name in a message; Linux's paths end at 4096, object keys at 1024.
const maxText = 4096

// commit is what we use of Hudi's callback message. It carries neither the completion time nor the action.
type commit struct {
	CommitTime string `json:"commitTime"`
	TableName  string `json:"tableName"`
	BasePath   string `json:"basePath"`
}

// parse returns the commit that a message tells of, or the reason why it is none.
func parse(value []byte, limit int) (commit, string) {
	switch {
	case len(value) == 0:
		return commit{}, ReasonEmpty
	case len(value) > limit:
		return commit{}, ReasonOversized
	case !json.Valid(value):
		return commit{}, ReasonNotJSON
	}
	var c commit
	if json.Unmarshal(value, &c) != nil || c.BasePath == "" || len(c.BasePath) > maxText || len(c.TableName) > maxText ||
		len(c.CommitTime) != 17 && len(c.CommitTime) != 14 || strings.Trim(c.CommitTime, "0123456789") != "" {
		return commit{}, ReasonShape
	}
	return c, ""
}

// traceOf returns the W3C trace context in a message's headers; "" if there is none that can be used.
func traceOf(headers []kgo.RecordHeader) string {
	for _, h := range headers {
		if strings.EqualFold(h.Key, "traceparent") && traceparent(h.Value) {
			return string(h.Value)
		}
	}
	return ""
}

// traceparent checks the form: version, trace id, parent id and flags in lower-case hex; ids of zeros mean nothing (W3C Trace Context 3.2).
func traceparent(b []byte) bool {
	parts := strings.Split(string(b), "-")
	if len(b) > 256 || len(parts) < 4 || len(parts) > 4 && parts[0] == "00" || parts[0] == "ff" {
		return false
	}
	for i, n := range []int{2, 32, 16, 2} {
		if len(parts[i]) != n || strings.Trim(parts[i], "0123456789abcdef") != "" {
			return false
		}
	}
	return strings.Trim(parts[1], "0") != "" && strings.Trim(parts[2], "0") != ""
}

// sample is the beginning of a value as a text for the log.
func sample(value []byte) string {
	const most = 200
	s := value
	if len(s) > most {
		s = s[:most]
	}
	text := strings.ToValidUTF8(string(s), string(utf8.RuneError))
	if len(value) > most {
		text += "…"
	}
	return text
}
