package timeline

import "strings"

// MergeMode says which of two versions of a row counts.
type MergeMode string

// The merge modes. Any other text is a mode this program does not know.
const (
	CommitTimeOrdering MergeMode = "COMMIT_TIME_ORDERING"
	EventTimeOrdering  MergeMode = "EVENT_TIME_ORDERING"
	CustomMerge        MergeMode = "CUSTOM"
)

var strategies = map[string]MergeMode{
	"eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": EventTimeOrdering,
	"ce9acb64-bde0-424c-9b91-f6ebba25356d": CommitTimeOrdering,
}

// inferMergeMode settles the merge mode: version 9 trusts the stored mode, version 8 also strategy and payload, and
// version 6 has the payload class only. Event time without an ordering field acts as commit time.
func (p *Properties) inferMergeMode() MergeMode {
	mode := MergeMode(upper(p.get("", "hoodie.record.merge.mode")))
	strategy := strings.ToLower(p.get("", "hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy"))
	payload := p.get("", "hoodie.compaction.payload.class")
	switch {
	case mode != "":
	case p.Version == 8 && strategy != "":
		mode = CustomMerge
		if m, ok := strategies[strategy]; ok {
			mode = m
		}
	case p.Version <= 8 && payload != "":
		mode = payloadMode(payload)
	case len(p.OrderingFields) > 0:
		mode = EventTimeOrdering
	default:
		mode = CommitTimeOrdering
	}
	if mode == EventTimeOrdering && len(p.OrderingFields) == 0 {
		return CommitTimeOrdering
	}
	return mode
}

func payloadMode(class string) MergeMode {
	switch class[strings.LastIndexByte(class, '.')+1:] {
	case "DefaultHoodieRecordPayload", "EventTimeAvroPayload":
		return EventTimeOrdering
	case "OverwriteWithLatestAvroPayload":
		return CommitTimeOrdering
	}
	return CustomMerge
}
