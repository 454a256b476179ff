package mdt

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

func TestRecordGroup(t *testing.T) {
	t.Parallel()
	// Values by Java: "".hashCode() 0, "polygenelubricants" -2^31, "aa" 3104, a surrogate pair 2 units.
	for _, tt := range []struct {
		key  string
		n    int
		want int
	}{
		{"", 10, 0}, {"a", 10, 7}, {"aa", 10, 4}, {"polygenelubricants", 10, 8}, {"polygenelubricants", 1, 0},
		{"\U00010348", 1000, (31*0xD800 + 0xDF48) % 1000}, {"é", 10, 233 % 10},
	} {
		if got := recordGroup(tt.key, tt.n); got != tt.want {
			t.Errorf("%q of %d: %d, want %d", tt.key, tt.n, got, tt.want)
		}
	}
}

const locationSchema = `{"type":"record","name":"HoodieMetadataRecord","fields":[{"name":"key","type":"string"},{"name":"type","type":"int"},
{"name":"recordIndexMetadata","type":["null",{"type":"record","name":"HoodieRecordIndexInfo","fields":[
{"name":"partitionName","type":["null","string"]},{"name":"fileIdHighBits","type":["null","long"]},{"name":"fileIdLowBits","type":["null","long"]},
{"name":"fileIndex","type":["null","int"]},{"name":"fileId","type":["null","string"]},{"name":"instantTime","type":["null","long"]},
{"name":"fileIdEncoding","type":"int","default":0},{"name":"position","type":["null","long"]}]}]}]}`

// locationLayer is a layer of entries of a schema.
func locationLayer(t testing.TB, schema string) layer {
	t.Helper()
	s, err := avrox.ParseSchema(schema)
	if err != nil {
		t.Fatal(err)
	}
	return layer{schema: s}
}

func TestDecodeLocation(t *testing.T) {
	t.Parallel()
	l := locationLayer(t, locationSchema)
	long := func(b []byte, v int64) []byte { return binary.AppendVarint(append(b, 2), v) }
	str := func(b []byte, s string) []byte { return append(binary.AppendVarint(append(b, 2), int64(len(s))), s...) }
	encode := func(partition string, high, low, index int64, id string, encoding int64, position int64) []byte {
		b := []byte{0, 10, 2}
		b = long(long(long(str(b, partition), high), low), index)
		b = binary.AppendVarint(long(str(b, id), 1772922357587), encoding)
		if position < 0 {
			return append(b, 0)
		}
		return long(b, position)
	}
	tests := []struct {
		name  string
		value []byte
		want  Location
		err   error
	}{
		// The example of Hudi's own bytes: negative halves, index 0.
		{"uuid", encode("region=apac", -4344206946316695611, -5760033692065721704, 0, "", 0, -1),
			Location{Partition: "region=apac", FileID: "c3b646cc-8602-47c5-b010-3fe002241298-0", Millis: 1772922357587, Position: -1}, nil},
		{"uuid without index", encode("", 1, 2, -1, "", 0, 7),
			Location{FileID: "00000000-0000-0001-0000-000000000002", Millis: 1772922357587, Position: 7}, nil},
		{"raw", encode(".", -1, -1, -1, "any id", 1, -1), Location{FileID: "any id", Millis: 1772922357587, Position: -1}, nil},
		{"raw without id", encode("", -1, -1, -1, "", 1, -1), Location{}, storage.ErrCorrupt},
		{"other encoding", encode("", 0, 0, 0, "x", 2, -1), Location{}, storage.ErrUnsupported},
		{"no parts", []byte{0, 10, 2, 0, 0, 0, 0, 0, 0, 0, 0}, Location{}, storage.ErrCorrupt},
		{"other type", []byte{0, 8, 0}, Location{}, storage.ErrCorrupt},
		{"no payload", []byte{0, 10, 0}, Location{}, storage.ErrCorrupt},
		{"cut", []byte{0, 10, 2, 2}, Location{}, storage.ErrCorrupt},
		{"empty", nil, Location{}, storage.ErrCorrupt},
	}
	for _, tt := range tests {
		got, err := new(locations).decode(l, tt.value)
		if tt.err == nil && (err != nil || got != tt.want) || tt.err != nil && !errors.Is(err, tt.err) {
			t.Errorf("%s: %+v %v", tt.name, got, err)
		}
	}
	if got := instantText(1772922357587, -6*time.Hour); got != "20260307162557587" {
		t.Errorf("text %s", got)
	}
	if got := instantText(-1, 0); got != "" {
		t.Errorf("text of a negative time %q", got)
	}
}

func TestLocationInstantWithoutZone(t *testing.T) {
	t.Parallel()
	// mor_basic keeps its timeline in UTC; with a local zone and no usable file times the text is unknown.
	_, m, data := real(t, "mor_basic")
	m.data.Zone = "LOCAL"
	got, err := m.LookupRecords(context.Background(), data, []string{"k0001"})
	if err != nil || got["k0001"].Instant != "" || got["k0001"].Millis == 0 {
		t.Errorf("%+v %v", got, err)
	}
	if off, ok := m.offset(&timeline.Timeline{}); ok {
		t.Errorf("offset %v of an empty timeline", off)
	}
}

func TestNoRecordIndex(t *testing.T) {
	t.Parallel()
	_, m, data := real(t, "cow_basic")
	if m.HasRecordIndex() {
		t.Fatal("cow_basic has a record index")
	}
	if _, err := m.LookupRecords(context.Background(), data, []string{"k"}); !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) == "" {
		t.Errorf("%v", err)
	}
}
