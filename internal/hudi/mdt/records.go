package mdt

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Location is where the record index says a row lives.
type Location struct {
	Partition string // "" for a table without partitions
	FileID    string
	// Millis is the base or log instant as epoch milliseconds, in the zone of the writer that made the entry.
	Millis int64
	// Instant is Millis as a text of the table's time zone, "" if that zone's offset cannot be derived. With a zone that
	// has summer time it may be off by an hour.
	Instant string
	// Position is the row's ordinal in the base file, -1 if the entry has none (no released writer stores one).
	Position int64
}

// LookupRecords returns where the record index has the given record keys; a key that is absent or deleted gives no entry. data is
// the data table's active timeline. Only the blocks that can hold a key are read, newest file first. Without a record index it
// is storage.ErrNotFound, with a record index per data partition storage.ErrUnsupported.
func (m *MDT) LookupRecords(ctx context.Context, data *timeline.Timeline, keys []string) (map[string]Location, error) {
	return m.LookupRecordsWithout(ctx, data, nil, keys)
}

// LookupRecordsWithout is LookupRecords as of the time before some completed data instants: what they wrote into the record index is left
// out, by their requested times. If that cannot be told apart any more, because a compaction of the metadata table may have merged
// it into a base file, it is storage.ErrStale.
func (m *MDT) LookupRecordsWithout(ctx context.Context, data *timeline.Timeline, out map[string]bool, keys []string) (map[string]Location, error) {
	if m.noRecords != nil {
		return nil, m.noRecords
	}
	p, err := m.partition(ctx, recordIndex)
	if err != nil {
		return nil, err
	}
	valid := m.ValidInstants(data)
	keep := func(instant string) bool {
		if out == nil {
			return valid(instant)
		}
		// An instant that the data table does not show may yet show: a commit that is seen late.
		_, shown := data.CompletionOf(instant)
		return valid(instant) && !out[instant] && (shown || strings.HasPrefix(instant, initPrefix) || instant < data.Earliest())
	}
	offset, known := m.offset(data)
	byGroup := make([][]string, len(p.groups))
	asked := make(map[string]bool, len(keys))
	for _, k := range keys {
		if !asked[k] {
			asked[k] = true
			g := recordGroup(k, len(p.groups))
			byGroup[g] = append(byGroup[g], k)
		}
	}
	found := make(map[string]Location, len(keys))
	var mu sync.Mutex // guards found
	var calls []func() error
	for i, want := range byGroup {
		if len(want) == 0 {
			continue
		}
		calls = append(calls, func() error {
			layers, err := m.layers(ctx, p.groups[i], keep)
			if err != nil {
				return err
			}
			if err := m.without(data, out, layers); err != nil {
				return err
			}
			decoders := map[*avrox.Schema]*avrox.Projection{}
			return newest(ctx, layers, want, func(key string, l layer, value []byte) error {
				proj := decoders[l.schema]
				if proj == nil {
					var err error
					if proj, err = l.schema.Project("type", "recordIndexMetadata"); err != nil {
						return err
					}
					decoders[l.schema] = proj
				}
				loc, err := decodeLocation(proj, value)
				if err != nil {
					return fmt.Errorf("record %q: %w", key, err)
				}
				if known {
					loc.Instant = instantText(loc.Millis, offset)
				}
				mu.Lock()
				found[key] = loc
				mu.Unlock()
				return nil
			})
		})
	}
	if err := storage.Together(m.Store, calls...); err != nil {
		return nil, err
	}
	return found, nil
}

// without refuses layers that may hold what data instants wrote which are to be left out. A deltacommit of the metadata table has the
// requested time of its data instant. A base file, or a log compaction, holds only what was requested before it; the first base file of a
// partition, whose time says nothing, holds what was there when it completed.
func (m *MDT) without(data *timeline.Timeline, out map[string]bool, layers []layer) error {
	first := ""
	for requested := range out {
		if first == "" || requested < first {
			first = requested
		}
	}
	for _, l := range layers {
		if first == "" {
			break
		}
		at := l.instant
		if strings.HasPrefix(at, initPrefix) {
			if at, _ = m.Timeline.CompletionOf(l.instant); at == "" {
				at = first // it is not known when it was made
			}
		}
		if _, own := data.CompletionOf(l.instant); at < first || own && !l.base {
			continue
		}
		return located("read metadata file", l.path, fmt.Errorf("it may hold what instant %s wrote: %w", first, storage.ErrStale))
	}
	return nil
}

// newest looks keys up in layers from the newest on and calls fn with each key's newest value; deleted keys give no call.
func newest(ctx context.Context, layers []layer, keys []string, fn func(key string, l layer, value []byte) error) error {
	left := keys
	for i := len(layers) - 1; i >= 0 && len(left) > 0; i-- {
		l := layers[i]
		done := make([]bool, len(left))
		if l.file == nil {
			for j, k := range left {
				_, done[j] = l.deleted[k]
			}
		} else {
			asBytes := make([][]byte, len(left))
			for j, k := range left {
				asBytes[j] = []byte(k)
			}
			err := l.file.Lookup(ctx, asBytes, func(j int, value []byte) error {
				if done[j] {
					return fmt.Errorf("key %q occurs twice: %w", left[j], storage.ErrCorrupt)
				}
				done[j] = true
				return fn(left[j], l, value)
			})
			if err != nil {
				return located("read metadata file", l.path, err)
			}
		}
		var rest []string
		for j, k := range left {
			if !done[j] {
				rest = append(rest, k)
			}
		}
		left = rest
	}
	return nil
}

// recordGroup is Hudi's placement of a key among n file groups: Java's string hash over UTF-16 units, |hash| mod n.
func recordGroup(key string, n int) int {
	var h int32
	for _, u := range utf16.Encode([]rune(key)) {
		h = 31*h + int32(u)
	}
	if h < 0 {
		h = -h // stays negative for -2^31, as Java's Math.abs does
	}
	g := h % int32(n)
	if g < 0 {
		g = -g
	}
	return int(g)
}

// decodeLocation reads recordIndexMetadata; proj gives type and recordIndexMetadata.
func decodeLocation(proj *avrox.Projection, value []byte) (Location, error) {
	values := make([]any, 2)
	if err := proj.Decode(value, values); err != nil {
		return Location{}, err
	}
	rec, ok := asRecord(values[1])
	if typ, isInt := values[0].(int32); !ok || !isInt || typ != typeRecord {
		return Location{}, fmt.Errorf("type %v without recordIndexMetadata: %w", values[0], storage.ErrCorrupt)
	}
	loc := Location{Position: -1}
	loc.Partition, _ = rec.Str("partitionName")
	if loc.Partition == unpartitioned {
		loc.Partition = ""
	}
	loc.Millis, _ = rec.Long("instantTime")
	if pos, ok := rec.Long("position"); ok {
		loc.Position = pos
	}
	encoding, _ := rec.Int("fileIdEncoding")
	switch encoding {
	case 0:
		high, ok1 := rec.Long("fileIdHighBits")
		low, ok2 := rec.Long("fileIdLowBits")
		index, ok3 := rec.Int("fileIndex")
		if !ok1 || !ok2 || !ok3 {
			return Location{}, fmt.Errorf("file id lacks parts: %w", storage.ErrCorrupt)
		}
		loc.FileID = uuidText(high, low)
		if index != -1 {
			loc.FileID += "-" + strconv.Itoa(int(index))
		}
	case 1:
		loc.FileID, _ = rec.Str("fileId")
	default:
		return Location{}, fmt.Errorf("file id encoding %d: %w", encoding, storage.ErrUnsupported)
	}
	if loc.FileID == "" {
		return Location{}, fmt.Errorf("no file id: %w", storage.ErrCorrupt)
	}
	return loc, nil
}

func uuidText(high, low int64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(high))
	binary.BigEndian.PutUint64(b[8:], uint64(low))
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// offset is the offset of the table's instant texts from UTC.
func (m *MDT) offset(data *timeline.Timeline) (time.Duration, bool) {
	if m.data.Zone == "UTC" {
		return 0, true
	}
	var newest timeline.Instant
	for _, i := range data.Instants() {
		if i.Requested > newest.Requested && i.State == timeline.Completed {
			newest = i
		}
	}
	if newest.Requested == "" {
		return 0, false
	}
	return timeline.ZoneOffset(newest)
}

// instantText is the 17-digit text of a moment.
func instantText(millis int64, offset time.Duration) string {
	if millis < 0 || millis > math.MaxInt64/int64(time.Millisecond) {
		return ""
	}
	t := time.UnixMilli(millis).UTC().Add(offset)
	return t.Format("20060102150405") + fmt.Sprintf("%03d", t.Nanosecond()/int(time.Millisecond))
}
