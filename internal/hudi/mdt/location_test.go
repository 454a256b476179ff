package mdt

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
)

// plainLocation decodes an entry of the record index by decoding all of it.
func plainLocation(s *avrox.Schema, offset time.Duration, value []byte) (Location, error) {
	proj, err := s.Project("type", "recordIndexMetadata")
	if err != nil {
		return Location{}, err
	}
	values := make([]any, 2)
	if err := proj.Decode(value, values); err != nil {
		return Location{}, err
	}
	rec, ok := values[1].(avrox.Record)
	if typ, isInt := values[0].(int32); !ok || !isInt || typ != typeRecord {
		return Location{}, storage.ErrCorrupt
	}
	loc := Location{Position: -1}
	if loc.Partition, _ = rec.Str("partitionName"); loc.Partition == unpartitioned {
		loc.Partition = ""
	}
	loc.Millis, _ = rec.Long("instantTime")
	loc.Instant = instantText(loc.Millis, offset)
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
			return Location{}, storage.ErrCorrupt
		}
		loc.FileID = uuidText(high, low)
		if index != -1 {
			loc.FileID += "-" + strconv.Itoa(int(index))
		}
	case 1:
		loc.FileID, _ = rec.Str("fileId")
	default:
		return Location{}, storage.ErrUnsupported
	}
	if loc.FileID == "" {
		return Location{}, storage.ErrCorrupt
	}
	return loc, nil
}

// locationSchemas are schemas that entries may have been written in: Hudi's, others that say less, more or the same in another way, and some that
// hold no location.
var locationSchemas = []string{
	locationSchema,
	// Fields behind and between, the type last, an enum and a union of other things.
	`{"type":"record","name":"R","fields":[{"name":"recordIndexMetadata","type":["int",{"type":"record","name":"I","fields":[
{"name":"more","type":{"type":"array","items":"string"}},{"name":"fileIdHighBits","type":"long"},{"name":"fileIdLowBits","type":["int","long"]},
{"name":"fileIndex","type":["long","int"]},{"name":"fileId","type":{"type":"enum","name":"E","symbols":["","a","b"]}},
{"name":"partitionName","type":["bytes","string"]},{"name":"fileIdEncoding","type":["null","int"]},{"name":"end","type":"double"}]},"string"]},
{"name":"type","type":["int","long"]},{"name":"behind","type":"bytes"}]}`,
	`{"type":"record","name":"R","fields":[{"name":"type","type":"int"},{"name":"recordIndexMetadata","type":["null","long"]}]}`,
	`{"type":"record","name":"R","fields":[{"name":"type","type":"int"}]}`,
	// A record in two branches.
	`{"type":"record","name":"R","fields":[{"name":"type","type":"int"},{"name":"recordIndexMetadata","type":[
{"type":"record","name":"A","fields":[{"name":"fileId","type":"string"},{"name":"fileIdEncoding","type":"int"}]},
{"type":"record","name":"B","fields":[{"name":"fileIdEncoding","type":"int"},{"name":"fileId","type":["null","string"]},{"name":"partitionName","type":"string"}]}]}]}`,
}

// sameLocation compares both ways to decode an entry.
func sameLocation(t *testing.T, d *locations, l layer, value []byte) (ok bool) {
	t.Helper()
	want, wantErr := plainLocation(l.schema, d.offset, value)
	got, err := d.decode(l, value)
	if got != want || (err == nil) != (wantErr == nil) {
		t.Fatalf("%x by %s:\n%+v %v\nwant %+v %v", value, l.schema.Text(), got, err, want, wantErr)
	}
	for _, kind := range []error{storage.ErrCorrupt, storage.ErrUnsupported} {
		if errors.Is(err, kind) != errors.Is(wantErr, kind) {
			t.Fatalf("%x by %s: %v, want %v", value, l.schema.Text(), err, wantErr)
		}
	}
	return err == nil
}

// locationSeeds are entries by the number of their schema.
var locationSeeds = [][][]byte{
	{
		{0, 10, 2, 2, 2, '.', 2, 1, 2, 3, 2, 0, 0, 2, 4, 0, 0},
		{0, 10, 2, 2, 4, 'e', 'u', 2, 0xd1, 0xd2, 0x03, 2, 0xff, 0xff, 0xff, 0xff, 0x0f, 2, 6, 2, 0, 2, 0x8a, 0x94, 0x8f, 0xf4, 0x98, 0x67, 0, 2, 9},
		{4, 'k', 'e', 10, 2, 2, 4, 'e', 'u', 2, 1, 2, 3, 2, 1, 2, 0, 2, 0x8a, 0x94, 0x8f, 0xf4, 0x98, 0x67, 0, 0},
		{0, 10, 2, 0, 0, 0, 0, 2, 2, 'x', 0, 2, 0},
		{0, 10, 2, 2, 2, 'p', 0, 0, 0, 2, 4, 'f', '1', 2, 4, 2, 2, 6},
	},
	{{2, 0, 2, 2, 8, 2, 6, 0, 2, 2, 'p', 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0}, {2, 2, 2, 'm', 0, 2, 0, 8, 2, 6, 4, 2, 2, 'p', 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0}},
	{{10, 2, 4}, {10, 0}},
	{{10}, {8}},
	{{10, 2, 2, 2, 2, 'a', 2, 'b'}, {10, 0, 2, 'a', 2}},
}

// Entries decoded one after the other by one decoder are those that decoding all of each gives, also where they are cut or changed.
func TestLocationsAgree(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	good := make([]int, len(locationSchemas))
	for n, schema := range locationSchemas {
		l := locationLayer(t, schema)
		if err := l.setLocation(); err != nil {
			t.Fatal(err)
		}
		d := &locations{offset: -time.Hour, known: true}
		for i := range 4000 {
			b := slices.Clone(locationSeeds[n][i%len(locationSeeds[n])])
			for range rng.IntN(4) {
				at := rng.IntN(len(b) + 1)
				switch rng.IntN(4) {
				case 0:
					b = b[:at]
				case 1:
					b = slices.Insert(b, at, byte(rng.IntN(12)))
				case 2:
					b = append(b[:at:at], binary.AppendVarint(nil, rng.Int64()-rng.Int64())...)
				default:
					if at < len(b) {
						b[at] = [2]byte{byte(rng.IntN(12)), byte(rng.Uint32())}[rng.IntN(2)]
					}
				}
			}
			if sameLocation(t, d, l, b) {
				good[n]++
			}
		}
	}
	if good[0] < 1000 || good[1] < 1000 || good[2] > 0 || good[3] > 0 || good[4] < 1000 {
		t.Errorf("entries that say where a row is, by schema: %v", good)
	}
}

func FuzzLocation(f *testing.F) {
	for n, seeds := range locationSeeds {
		for _, b := range seeds {
			f.Add(n, b)
		}
	}
	f.Fuzz(func(t *testing.T, schema int, value []byte) {
		l := locationLayer(t, locationSchemas[uint(schema)%uint(len(locationSchemas))])
		if err := l.setLocation(); err != nil {
			t.Fatal(err)
		}
		d := &locations{offset: time.Hour, known: true}
		if sameLocation(t, d, l, value) {
			sameLocation(t, d, l, value) // by what the first left behind
		}
	})
}
