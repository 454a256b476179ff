package mdt

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"time"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Places of what is read of an entry of the record index.
const (
	atType = iota
	atInfo
	atPartition
	atMillis
	atPosition
	atEncoding
	atHigh
	atLow
	atIndex
	atFileID
	locationFields
)

// setLocation prepares reading entries of the record index from a layer of a file.
func (l *layer) setLocation() (err error) {
	const info = "recordIndexMetadata"
	l.location, err = l.schema.Pick("type", info, info+".partitionName", info+".instantTime", info+".position", info+".fileIdEncoding",
		info+".fileIdHighBits", info+".fileIdLowBits", info+".fileIndex", info+".fileId")
	return err
}

// fileNumber is a file id in the form of the record index: a UUID in halves, and the number behind it.
type fileNumber struct{ high, low, index int64 }

// locations decodes entries of the record index. Entries name few partitions, files and times, whose texts are made once.
type locations struct {
	offset time.Duration // of instant texts from UTC
	known  bool          // offset is

	values    [locationFields]avrox.Picked
	last      fileNumber
	lastID    string
	ids       map[fileNumber]string
	partition string
	millis    int64
	instant   string
	timed     bool // instant is that of millis
}

// idsKept bounds the texts of file ids that one look-up keeps.
const idsKept = 4096

// decode reads one entry of a layer.
func (d *locations) decode(l layer, value []byte) (Location, error) {
	if l.location == nil {
		if err := l.setLocation(); err != nil {
			return Location{}, err
		}
	}
	v := &d.values
	if err := l.location.Decode(value, v[:]); err != nil {
		return Location{}, err
	}
	if v[atInfo].Type != avrox.Object || v[atType].Type != avrox.Int || v[atType].Int != typeRecord {
		return Location{}, fmt.Errorf("type %d without recordIndexMetadata: %w", v[atType].Int, storage.ErrCorrupt)
	}
	loc := Location{Position: -1}
	if text(v[atPartition]) {
		if string(v[atPartition].Bytes) != d.partition {
			d.partition = string(v[atPartition].Bytes)
		}
		if loc.Partition = d.partition; loc.Partition == unpartitioned {
			loc.Partition = ""
		}
	}
	loc.Millis, _ = v[atMillis].Long()
	if pos, ok := v[atPosition].Long(); ok {
		loc.Position = pos
	}
	switch encoding := v[atEncoding]; {
	case encoding.Type != avrox.Int || encoding.Int == 0:
		high, ok1 := v[atHigh].Long()
		low, ok2 := v[atLow].Long()
		if !ok1 || !ok2 || v[atIndex].Type != avrox.Int {
			return Location{}, fmt.Errorf("file id lacks parts: %w", storage.ErrCorrupt)
		}
		loc.FileID = d.fileID(fileNumber{high, low, v[atIndex].Int})
	case encoding.Int == 1:
		if text(v[atFileID]) {
			loc.FileID = string(v[atFileID].Bytes)
		}
	default:
		return Location{}, fmt.Errorf("file id encoding %d: %w", encoding.Int, storage.ErrUnsupported)
	}
	if loc.FileID == "" {
		return Location{}, fmt.Errorf("no file id: %w", storage.ErrCorrupt)
	}
	if d.known {
		if !d.timed || d.millis != loc.Millis {
			d.millis, d.instant, d.timed = loc.Millis, instantText(loc.Millis, d.offset), true
		}
		loc.Instant = d.instant
	}
	return loc, nil
}

// text says whether a value is a text.
func text(p avrox.Picked) bool { return p.Type == avrox.String || p.Type == avrox.Enum }

// fileID returns the text of a file id.
func (d *locations) fileID(n fileNumber) string {
	if d.lastID != "" && d.last == n {
		return d.lastID
	}
	id, ok := d.ids[n]
	if !ok {
		id = uuidText(n.high, n.low)
		if n.index != -1 {
			id += "-" + strconv.FormatInt(n.index, 10)
		}
		if d.ids == nil || len(d.ids) == idsKept {
			d.ids = map[fileNumber]string{}
		}
		d.ids[n] = id
	}
	d.last, d.lastID = n, id
	return id
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
