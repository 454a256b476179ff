package hfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

// build makes a file out of blocks with any payloads, so that checksums are right and the payload is what is wrong.
type build struct {
	w *Writer
	t trailer
}

func newBuild(cfg Config) *build {
	return &build{w: NewWriter(cfg), t: trailer{levels: 1, comparator: comparatorHudi, compression: cfg.Compression}}
}

func (b *build) block(magic string, payload []byte) entry {
	off := b.w.off
	b.w.writeBlock(magic, payload, -1)
	return entry{off: off, size: b.w.off - off}
}

func cellBytes(row, value string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(keyFixed+len(row)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	b = append(appendCellKey(b, []byte(row)), value...)
	return append(b, 0)
}

// bare appends an index entry with the key form of Hudi's native writer; keyLen 0 means the Hadoop coding.
func bare(dst []byte, e entry, row string, protobuf bool) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.off))
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.size))
	if protobuf {
		dst = appendUvarint(dst, uint64(len(row)+2))
	} else {
		dst = appendVint(dst, len(row)+2)
	}
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(row))), row...)
}

func (b *build) finish(index []byte, roots int, info []KV, change func(*trailer)) []byte {
	b.t.loadOnOpen, b.t.roots = b.w.off, int64(roots)
	b.block(magicRoot, index)
	b.block(magicRoot, nil)
	b.t.infoOffset = b.w.off
	b.block(magicInfo, appendInfo(nil, info))
	if change != nil {
		change(&b.t)
	}
	return b.t.append(b.w.mem.Bytes())
}

var mvcc = []KV{{infoKVVersion, []byte{0, 0, 0, 1}}}

// single makes a file of one data block with the given payload and cell count.
func single(payload []byte, entries int, row string, protobuf bool) []byte {
	b := newBuild(Config{})
	e := b.block(magicData, payload)
	return b.finish(bare(nil, e, row, protobuf), 1, mvcc, func(t *trailer) {
		t.entries, t.indexBytes = uint64(entries), uint64(len(payload))
	})
}

func TestMisSorted(t *testing.T) {
	t.Parallel()
	// One block as Java sorts it: U+10348 (surrogates D800 DF48) before U+FFEE.
	rows := []string{"a", "z", "\U00010348", "\uffee"}
	var payload []byte
	for _, r := range rows {
		payload = append(payload, cellBytes(r, "v"+r)...)
	}
	r := open(t, single(payload, len(rows), "a", false))
	cells := mustAll(t, r)
	if len(cells) != 4 {
		t.Fatalf("%d cells", len(cells))
	}
	checkLookup(t, r, cells)

	// The same over many blocks: the block that byte order names is not the one that holds the key.
	b := newBuild(Config{})
	var index []byte
	plain := 0
	rows = []string{"a", "\U00010348", "\U00010349", "\ue000", "\uffee"}
	for _, row := range rows {
		p := cellBytes(row, "v"+row)
		plain += len(p)
		index = bare(index, b.block(magicData, p), row, false)
	}
	last := func(t *trailer) {
		t.entries, t.indexBytes, t.last = uint64(len(rows)), uint64(plain), b.w.off
	}
	// The last data block's offset is that of the last index entry.
	lastOff := int64(0)
	r = open(t, b.finish(index, len(rows), mvcc, func(t *trailer) {
		last(t)
		list, err := parseRoot(index, t.loadOnOpen, t.roots, true, false)
		if err != nil {
			panic(err)
		}
		lastOff = list[len(list)-1].off
		t.last = lastOff
	}))
	checkLookup(t, r, mustAll(t, r))
}

func TestKeysUnicodeFixture(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"a", "b", -1}, {"", "a", -1}, {"a", "a", 0}, {"\uffee", "\U00010348", 1}, {"\U00010348", "\uffee", -1},
		{"日", "\U00010348", -1}, {"\U00010348", "日", 1}, {"\U00010348", "\U00010349", -1}, {"\ud7ff", "\U00010348", -1}, {"é", "è", 1},
		{"x\U00010348", "x\ue000", -1}, {"x", "x\ue000", -1},
	} {
		if got := compareUTF16([]byte(tt.a), []byte(tt.b)); got != tt.want {
			t.Errorf("compare %q %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestProtobufIndexKeys(t *testing.T) {
	t.Parallel()
	// Hudi 1.1.x wrote the key length as a protobuf varint: 130 as 82 01, a negative Hadoop number.
	row := strings.Repeat("k", 200)
	r := open(t, single(cellBytes(row, "v"), 1, row, true))
	checkLookup(t, r, mustAll(t, r))
}

func TestOtherChecksum(t *testing.T) {
	t.Parallel()
	// Type 1 is CRC32 with the IEEE polynomial.
	file := write(t, Config{Compression: None}, randomCells(1, 5, 30))
	for off := int64(0); off < int64(len(file))-trailerSize; {
		size, data := blockSize(file[off:]), int64(binary.BigEndian.Uint32(file[off+29:]))
		file[off+24] = 1
		for i := int64(0); data+4*i < size; i++ {
			end := min(off+data, off+(i+1)*bytesPerChecksum)
			binary.BigEndian.PutUint32(file[off+data+4*i:], crc32.ChecksumIEEE(file[off+i*bytesPerChecksum:end]))
		}
		off += size
	}
	mustAll(t, open(t, file))
	file[40]++
	if _, err := all(open(t, file), nil); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("flipped byte under CRC32: %v", err)
	}
}

func TestBadPayloads(t *testing.T) {
	t.Parallel()
	good := cellBytes("row", "value")
	edit := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	put := func(at int, v uint32) []byte {
		return edit(func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], v); return b })
	}
	tests := []struct {
		name    string
		payload []byte
		want    error
	}{
		{"cut cell", good[:10], storage.ErrCorrupt},
		{"huge key", put(0, math.MaxInt32), storage.ErrCorrupt},
		{"negative key", put(0, 1<<31), storage.ErrCorrupt},
		{"short key", put(0, 3), storage.ErrCorrupt},
		{"huge value", put(4, math.MaxInt32), storage.ErrCorrupt},
		{"negative value", put(4, 1<<31), storage.ErrCorrupt},
		{"row too long", edit(func(b []byte) []byte { b[8], b[9] = 0xff, 0xff; return b }), storage.ErrCorrupt},
		{"row shorter than key", edit(func(b []byte) []byte { b[9]--; return b }), storage.ErrUnsupported},
		{"family", edit(func(b []byte) []byte { b[13] = 1; return b }), storage.ErrUnsupported},
		{"delete cell", edit(func(b []byte) []byte { b[22] = 8; return b }), storage.ErrUnsupported},
		{"no version number", good[:len(good)-1], storage.ErrCorrupt},
		{"cut version number", edit(func(b []byte) []byte { b[len(b)-1] = 0x80; return b }), storage.ErrCorrupt},
		{"one cell less", nil, storage.ErrCorrupt},
	}
	for _, tt := range tests {
		r, err := Open(context.Background(), storage.BytesSource(single(tt.payload, 1, "row", false)))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if _, err := all(r, nil); !errors.Is(err, tt.want) {
			t.Errorf("%s: scan: %v", tt.name, err)
		}
	}
}

func TestBadStructure(t *testing.T) {
	t.Parallel()
	data := cellBytes("row", "value")
	file := func(index func(e entry) ([]byte, int), info []KV, change func(*trailer)) []byte {
		b := newBuild(Config{})
		e := b.block(magicData, data)
		idx, n := index(e)
		return b.finish(idx, n, info, func(t *trailer) {
			t.entries, t.indexBytes = 1, uint64(len(data))
			if change != nil {
				change(t)
			}
		})
	}
	plain := func(e entry) ([]byte, int) { return bare(nil, e, "row", false), 1 }
	tests := []struct {
		name string
		file []byte
		want error
	}{
		{"good", file(plain, mvcc, nil), nil},
		{"entry count", file(func(e entry) ([]byte, int) { return bare(nil, e, "row", false), 2 }, mvcc, nil), storage.ErrCorrupt},
		{"huge entry count", file(plain, mvcc, func(t *trailer) { t.roots = 100 }), storage.ErrCorrupt},
		{"offset beyond", file(func(e entry) ([]byte, int) { e.off = 1 << 40; return bare(nil, e, "row", false), 1 }, mvcc, nil), storage.ErrCorrupt},
		{"size beyond", file(func(e entry) ([]byte, int) { e.size = 1 << 30; return bare(nil, e, "row", false), 1 }, mvcc, nil), storage.ErrCorrupt},
		{"same block twice", file(func(e entry) ([]byte, int) { return bare(bare(nil, e, "row", false), e, "s", false), 2 }, mvcc, nil), storage.ErrCorrupt},
		{"index behind a hole", file(func(e entry) ([]byte, int) { e.off, e.size = e.off+1, e.size-1; return bare(nil, e, "row", false), 1 }, mvcc, func(t *trailer) { t.first, t.last = 1, 1 }), storage.ErrCorrupt},
		{"hole before the index", file(func(e entry) ([]byte, int) { e.size--; return bare(nil, e, "row", false), 1 }, mvcc, nil), storage.ErrCorrupt},
		{"bad index key", file(func(e entry) ([]byte, int) {
			b := bare(nil, e, "row", false)
			b[14] = 0x70
			return b, 1
		}, mvcc, nil), storage.ErrCorrupt},
		{"bytes behind the index", file(func(e entry) ([]byte, int) { return append(bare(nil, e, "row", false), 0), 1 }, mvcc, nil), storage.ErrCorrupt},
		{"first block", file(plain, mvcc, func(t *trailer) { t.first = 7 }), storage.ErrCorrupt},
		{"levels", file(plain, mvcc, func(t *trailer) { t.levels = 17 }), storage.ErrCorrupt},
		{"two levels over data", file(plain, mvcc, func(t *trailer) { t.levels = 2 }), storage.ErrCorrupt},
		{"no cells but entries", file(func(entry) ([]byte, int) { return nil, 0 }, mvcc, func(t *trailer) { t.first = -1 }), storage.ErrCorrupt},
		{"comparator", file(plain, mvcc, func(t *trailer) { t.comparator = "some.Other" }), storage.ErrCorrupt},
		{"info offset", file(plain, mvcc, func(t *trailer) { t.infoOffset += 3 }), storage.ErrCorrupt},
		{"load on open", file(plain, mvcc, func(t *trailer) { t.loadOnOpen = 1 << 50 }), storage.ErrCorrupt},
		{"last key", file(plain, append([]KV{{infoLastKey, []byte("\x00\x03sow")}}, mvcc...), nil), storage.ErrCorrupt},
		{"last key broken", file(plain, append([]KV{{infoLastKey, []byte("\x7f")}}, mvcc...), nil), storage.ErrCorrupt},
		{"plain size", file(plain, mvcc, func(t *trailer) { t.indexBytes = 5 }), storage.ErrCorrupt},
	}
	for _, tt := range tests {
		r, err := Open(context.Background(), storage.BytesSource(tt.file))
		if err == nil {
			_, err = all(r, nil)
		}
		if tt.want == nil && err != nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestBadTrailer(t *testing.T) {
	t.Parallel()
	file := write(t, Config{}, randomCells(1, 3, 10))
	message := func(f func(msg []byte) []byte) []byte {
		out := bytes.Clone(file)
		tb := out[len(out)-trailerSize:]
		n := int(tb[8])
		msg := f(bytes.Clone(tb[9 : 9+n]))
		clear(tb[8 : trailerSize-4])
		copy(tb[8:], append(appendUvarint(nil, uint64(len(msg))), msg...))
		return out
	}
	tests := []struct {
		name string
		file []byte
		want error
	}{
		{"unknown field", message(func(m []byte) []byte { return append(m, 14<<3, 1) }), storage.ErrCorrupt},
		{"field twice", message(func(m []byte) []byte { return append(m, 5<<3, 1) }), storage.ErrCorrupt},
		{"wrong wire type", message(func(m []byte) []byte { m[0] |= 1; return m }), storage.ErrCorrupt},
		{"field missing", message(func(m []byte) []byte { return m[:len(m)-2] }), storage.ErrCorrupt},
		{"cut field", message(func(m []byte) []byte { return append(m[:len(m)-1], 0x80) }), storage.ErrCorrupt},
		{"cut string", message(func(m []byte) []byte { return append(m[:len(m)-2], 13<<3|2, 9) }), storage.ErrCorrupt},
		{"long tag", message(func(m []byte) []byte { return append(m, 0x80, 0x80, 1) }), storage.ErrCorrupt},
		{"encryption", message(func(m []byte) []byte { return append(m, 13<<3|2, 1, 'k') }), storage.ErrUnsupported},
		{"snappy", message(func(m []byte) []byte { m[len(m)-1] = 3; return m }), storage.ErrUnsupported},
		{"codec 9", message(func(m []byte) []byte { m[len(m)-1] = 9; return m }), storage.ErrCorrupt},
		{"encoded blocks", func() []byte {
			b := newBuild(Config{})
			e := b.block(magicEncoded, cellBytes("row", "v"))
			return b.finish(bare(nil, e, "row", false), 1, mvcc, func(t *trailer) { t.entries = 1 })
		}(), storage.ErrUnsupported},
	}
	for _, tt := range tests {
		r, err := Open(context.Background(), storage.BytesSource(tt.file))
		if err == nil {
			_, err = all(r, nil)
		}
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for major, want := range map[byte]error{1: storage.ErrUnsupported, 2: storage.ErrUnsupported, 4: storage.ErrCorrupt} {
		f := bytes.Clone(file)
		f[len(f)-1] = major
		if _, err := Open(context.Background(), storage.BytesSource(f)); !errors.Is(err, want) {
			t.Errorf("version %d: %v", major, err)
		}
	}
}

func TestBadIndexBlocks(t *testing.T) {
	t.Parallel()
	good := binary.BigEndian.AppendUint32(nil, 1)
	good = binary.BigEndian.AppendUint32(good, 0)
	good = binary.BigEndian.AppendUint32(good, 17)
	good = append(good, make([]byte, 8)...)
	good = append(binary.BigEndian.AppendUint32(good, 40), 0, 3, 'r', 'o', 'w')
	if list, err := parseBranch(good, 100); err != nil || len(list) != 1 || string(list[0].row) != "row" {
		t.Fatalf("%v %v", list, err)
	}
	for at, want := range map[int]string{0: "entries", 3: "entries", 7: "first", 11: "ends", 19: "beyond", 20: "beyond"} {
		b := bytes.Clone(good)
		b[at] ^= 0x7f
		if _, err := parseBranch(b, 100); !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	for n := range good {
		if _, err := parseBranch(good[:n], 100); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	if _, err := parseBranch(append(bytes.Clone(good), 0), 100); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("byte behind: %v", err)
	}
}

func TestInfoErrors(t *testing.T) {
	t.Parallel()
	good := appendInfo(nil, []KV{{"k", []byte("v")}})
	for n := range good {
		if _, err := parseInfo(good[:n], 0); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	for at := range good {
		b := bytes.Clone(good)
		b[at] |= 0x80
		if list, err := parseInfo(b, 0); err == nil && list[0].Key == "k" && string(list[0].Value) == "v" {
			t.Errorf("byte %d has no meaning", at)
		}
	}
}

func TestStopsAndErrors(t *testing.T) {
	t.Parallel()
	r := open(t, testkit.File(t, "hudi-rs/hfile/hudi_1_0_hbase_2_4_9_16KB_NONE_5000.hfile"))
	n := 0
	for range r.Scan(context.Background(), nil) {
		if n++; n == 3 {
			break
		}
	}
	boom := errors.New("boom")
	keys := [][]byte{[]byte("hudi-key-000000001"), []byte("hudi-key-000000001"), []byte("hudi-key-000004000")}
	if err := r.Lookup(context.Background(), keys, func(int, []byte) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("error of the callback: %v", err)
	}
	if err := r.Lookup(context.Background(), keys[2:], func(int, []byte) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("error of the callback: %v", err)
	}
	if n, err := r.Blocks(context.Background()); err != nil || n != 18 {
		t.Errorf("%d blocks, %v", n, err)
	}
	// A source that fails.
	for allow := range 4 {
		src := &failing{Source: storage.BytesSource(testkit.File(t, "hudi-rs/hfile/hudi_1_0_hbase_2_4_13_1KB_GZ_20000_large_keys.hfile")), allow: allow, err: boom}
		r, err := Open(context.Background(), src)
		if err == nil {
			_, err = all(r, nil)
		}
		if !errors.Is(err, boom) {
			t.Errorf("source fails after %d: %v", allow, err)
		}
	}
}

type failing struct {
	storage.Source
	allow int
	err   error
	reads int
	bytes int64
}

func (f *failing) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	if f.allow--; f.allow < 0 && f.err != nil {
		return nil, f.err
	}
	f.reads++
	f.bytes += n
	return f.Source.ReadRange(ctx, off, n)
}

// TestRequests states how many requests the common paths need.
func TestRequests(t *testing.T) {
	t.Parallel()
	count := func(b []byte, do func(r *Reader)) (int, int64) {
		src := &failing{Source: storage.BytesSource(b)}
		r, err := Open(context.Background(), src)
		if err != nil {
			t.Fatal(err)
		}
		do(r)
		return src.reads, src.bytes
	}
	lookup := func(keys ...string) func(r *Reader) {
		return func(r *Reader) {
			var k [][]byte
			for _, s := range keys {
				k = append(k, []byte(s))
			}
			if err := r.Lookup(context.Background(), k, func(int, []byte) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	small := write(t, Config{}, randomCells(1, 50, 100))
	if n, _ := count(small, lookup("key-00000003", "key-00000009")); n != 1 {
		t.Errorf("small file: %d requests", n)
	}
	large := testkit.File(t, "hudi-rs/hfile/hudi_1_0_hbase_2_4_9_16KB_NONE_5000.hfile")
	if n, b := count(large, lookup("hudi-key-000000003")); n != 2 || b > tailRead+2*bytesPerChecksum {
		t.Errorf("one key: %d requests, %d bytes", n, b)
	}
	if n, b := count(large, lookup("hudi-key-000000003", "hudi-key-000000100", "hudi-key-000002000")); n != 3 || b > tailRead+3*17000 {
		t.Errorf("two places: %d requests, %d bytes", n, b)
	}
	if n, _ := count(large, func(r *Reader) { mustAll(t, r) }); n != 2 {
		t.Errorf("whole file: %d requests", n)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, k := range [][]byte{nil, {0}, {0x7f}, {0x80}, {0xff, 0xff}, []byte("ä"), every} {
		stored := EncodeKey(k)
		var want strings.Builder
		for _, c := range k {
			want.WriteRune(rune(c))
		}
		if string(stored) != want.String() {
			t.Errorf("encode %x: %x", k, stored)
		}
		back, err := DecodeKey(stored)
		if err != nil || !bytes.Equal(back, k) {
			t.Errorf("decode %x: %x %v", stored, back, err)
		}
	}
	for _, k := range []string{"\x80", "\xc2", "\xc4\x80", "\xc0\x80", "\xc3A", "日"} {
		if _, err := DecodeKey([]byte(k)); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("decode %x: %v", k, err)
		}
	}
}

func TestVarints(t *testing.T) {
	t.Parallel()
	for _, v := range []int{0, 1, 127, 128, 131, 255, 256, 65535, 1 << 20, math.MaxInt32} {
		b := appendVint(nil, v)
		if got, n := vint(b); got != int64(v) || n != len(b) {
			t.Errorf("vint %d: %x gives %d, %d", v, b, got, n)
		}
		if _, n := vint(b[:len(b)-1]); n != 0 {
			t.Errorf("vint %d cut is accepted", v)
		}
	}
	for text, want := range map[string]int64{"\xff": -1, "\x90": -112, "\x87\x70": -113, "\x86\xff\xff": -65536, "\x8f\x83": 131} {
		if got, n := vint([]byte(text)); got != want || n != len(text) {
			t.Errorf("vint %x: %d, want %d", text, got, want)
		}
	}
	for _, v := range []uint64{0, 127, 128, math.MaxUint64} {
		b := appendUvarint(nil, v)
		if got, n := uvarint(b); got != v || n != len(b) {
			t.Errorf("uvarint %d: %d %d", v, got, n)
		}
	}
	for _, text := range []string{"", "\x80", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if _, n := uvarint([]byte(text)); n != 0 {
			t.Errorf("uvarint %x is accepted", text)
		}
	}
}
