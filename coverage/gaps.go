package coverage

import (
	"maps"
	"slices"
	"strings"

	"tidemark/internal/hudi/mdt"
	"tidemark/markers"
	"tidemark/timeline"
)

// Why a commit is not covered, or holds the frontier (design, section 5).
const (
	GapPending     = "pending"     // completed, not processed yet
	GapInflight    = "inflight"    // not completed; holds the frontier
	GapArchived    = "archived"    // in the archived timeline, to be caught up from there
	GapFailed      = "failed"      // cannot be read
	GapRestored    = "restored"    // covered, and undone since
	GapQuarantined = "quarantined" // set aside after repeated failures, or by an operator
	// GapUnaware is a commit of an engine that keeps no markers, where others carry those of one that does. No release of Hudi writes markers, so
	// nothing has it yet.
	GapUnaware = "unaware_writer"
)

// GapReasons are all of them.
var GapReasons = []string{GapPending, GapInflight, GapArchived, GapFailed, GapRestored, GapQuarantined, GapUnaware}

// State says for people what a commit that is not covered is: skipped (Skipped has the operator's reason), quarantined, or not covered yet.
func (g Gap) State() string {
	switch {
	case g.Skipped != "":
		return "skipped: " + g.Skipped
	case g.Reason == GapQuarantined:
		return "set aside"
	}
	return "not covered yet"
}

// gaps lists what keeps the index from covering the newest snapshot or its frontier from following.
func (l *look) gaps(x *mdt.Index, v Verdict) []Gap {
	var out []Gap
	set := setOf(x)
	for _, requested := range v.Vanished {
		completed, ok := set.Covered[requested]
		if !ok {
			completed = set.Baseline[requested]
		}
		out = append(out, Gap{Requested: requested, Completed: &completed, Reason: GapRestored})
	}
	if v.Behind && !v.Reached {
		out = append(out, Gap{Requested: x.Frontier.Requested, Reason: GapArchived})
	}
	for _, i := range v.Due {
		reason := GapPending
		_, aside := l.state.Quarantine[i.Requested]
		skip, skipped := l.state.Skipped[i.Requested]
		if aside || skipped {
			reason = GapQuarantined
		} else if i.Archived {
			reason = GapArchived
		} else if i.Size == 0 {
			reason = GapFailed
		}
		out = append(out, Gap{Requested: i.Requested, Completed: &i.Completed, Action: i.Action, Reason: reason, Skipped: skip.Reason})
	}
	for _, i := range l.tl.Pending() {
		if markers.Holds(i) && i.Requested < v.Lag.Latest.Completed {
			out = append(out, Gap{Requested: i.Requested, Action: i.Action, Reason: GapInflight})
		}
	}
	return out
}

// wroteGap names the writer of a commit that is not covered.
func (s *IndexStatus) wroteGap(requested, writer string) {
	for g := range s.Gaps {
		if s.Gaps[g].Requested == requested && s.Gaps[g].Reason == GapPending {
			s.Gaps[g].Writer = writer
		}
	}
}

// tools are writers that leave a key of their own in a commit's extra metadata.
var tools = []struct{ key, name string }{
	{"streamer.checkpoint.key.v2", "Hudi Streamer"},
	{"deltastreamer.checkpoint.key", "Hudi Streamer"},
	{"_hudi_streaming_sink_checkpoint", "Spark structured streaming"},
	{"kafka.commit.offsets", "Kafka Connect"},
	{"flink", "Flink"},
}

// maxWriter bounds the text of a writer, in bytes.
const maxWriter = 120

// writerOf says who wrote a commit, as far as its extra metadata tells: a key that a user put there (by default Hudi takes those
// that begin with "_") and that names a writer, user, job or application, else the tool that leaves its checkpoint. "" if nothing
// tells.
func writerOf(m *timeline.CommitMetadata) string {
	keys := slices.Sorted(maps.Keys(m.Extra))
	for _, word := range []string{"writer", "job", "app", "user"} {
		for _, k := range keys {
			words := strings.FieldsFunc(strings.ToLower(k), func(r rune) bool { return r == '_' || r == '.' || r == '-' })
			if slices.Contains(words, word) && m.Extra[k] != "" {
				return cut(k + "=" + m.Extra[k])
			}
		}
	}
	for _, t := range tools {
		for _, k := range keys {
			if k == t.key || strings.HasPrefix(k, t.key+".") {
				return t.name
			}
		}
	}
	return ""
}

func cut(s string) string {
	if len(s) <= maxWriter {
		return s
	}
	return strings.ToValidUTF8(s[:maxWriter], "") + "…"
}
