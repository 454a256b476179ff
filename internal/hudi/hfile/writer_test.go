package hfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

// write makes a file of cells.
func write(t testing.TB, cfg Config, cells []Cell) []byte {
	t.Helper()
	w := NewWriter(cfg)
	for _, c := range cells {
		if err := w.Append(c.Key, c.Value); err != nil {
			t.Fatal(err)
		}
	}
	b, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rawBlock is a block as it lies in a file, with its payload unpacked.
type rawBlock struct {
	off     int64
	magic   string
	header  []byte // 33 bytes
	stored  []byte
	payload []byte
	sums    []byte
}

func split(t testing.TB, file []byte) (blocks []rawBlock, trailerBytes []byte) {
	t.Helper()
	r := open(t, file)
	var f inflater
	for off := int64(0); off < int64(len(file))-trailerSize; {
		blk, err := decode(file[off:], off, r.Compression(), &f, magicData, magicRoot, magicInfo)
		if err != nil {
			t.Fatal(err)
		}
		data := off + int64(binary.BigEndian.Uint32(file[off+29:]))
		blocks = append(blocks, rawBlock{off, blk.magic, file[off : off+headerSize], file[off+headerSize : data], bytes.Clone(blk.payload), file[data : off+blk.size]})
		off += blk.size
	}
	return blocks, file[len(file)-trailerSize:]
}

// The differences between Hudi's native writer and ours; docs/format/hfile.md lists the same with reasons.
const (
	diffPrev       = "prevBlockOffset of a data block from the second on"
	diffIndexKey   = "index keys are whole cell keys"
	diffLastKey    = "hfile.LASTKEY is a whole cell key"
	diffCreateTime = "hfile.CREATE_TIME_TS is 0"
	diffChecksum   = "checksum type 2 (CRC32C) instead of 0"
	diffGzip       = "bytes of the gzip members"
	diffOffsets    = "offsets and sizes behind the first changed length"
)

// asOurs turns a file of the native writer into the one that we write from the same cells, step by step, and records each step
// that changed something.
func asOurs(t testing.TB, file []byte, sum Checksum, gz bool) (out []byte, steps map[string]bool) {
	t.Helper()
	steps = map[string]bool{}
	blocks, tb := split(t, file)
	tr, err := parseTrailer(tb, int64(len(file)-trailerSize))
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(Config{Checksum: sum, Compression: tr.compression})
	prev := int64(-1)
	var offsets, sizes []int64
	roots := 0
	for _, b := range blocks {
		payload := b.payload
		start, wantPrev := w.off, int64(-1)
		switch {
		case b.magic == magicData:
			wantPrev, prev = prev, start
		case b.magic == magicRoot && roots == 0:
			roots++
			payload = nil
			list, err := parseRoot(b.payload, b.off, tr.roots, true, false)
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range list {
				payload = binary.BigEndian.AppendUint64(payload, uint64(offsets[i]))
				payload = binary.BigEndian.AppendUint32(payload, uint32(sizes[i]))
				payload = appendVint(payload, keyFixed+len(e.row))
				payload = appendCellKey(payload, e.row)
			}
			note(steps, diffIndexKey, payload, b.payload)
			tr.loadOnOpen = start
		case b.magic == magicInfo:
			list, err := parseInfo(b.payload, b.off)
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range list {
				switch e.Key {
				case infoLastKey:
					list[i].Value = appendCellKey(nil, e.Value[2:])
					note(steps, diffLastKey, list[i].Value, e.Value)
				case infoCreateTime:
					list[i].Value = make([]byte, 8)
					note(steps, diffCreateTime, list[i].Value, e.Value)
				}
			}
			payload = appendInfo(nil, list)
			tr.infoOffset = start
		}
		if binary.BigEndian.Uint64(b.header[16:]) != uint64(wantPrev) && int64(binary.BigEndian.Uint64(b.header[16:])) != wantPrev {
			// Only blocks behind the first hold another value: their own offset.
			if b.magic == magicData && int64(binary.BigEndian.Uint64(b.header[16:])) != b.off {
				t.Errorf("block at %d: prevBlockOffset %d", b.off, int64(binary.BigEndian.Uint64(b.header[16:])))
			}
			steps[diffPrev] = true
		}
		w.writeBlock(b.magic, payload, wantPrev)
		offsets, sizes = append(offsets, start), append(sizes, w.off-start)
		written := w.mem.Bytes()[start:]
		data := headerSize + len(written) - headerSize - len(b.sums)
		if !gz {
			// Beside the steps above the block is byte for byte what Hudi wrote.
			if bytes.Equal(payload, b.payload) {
				if !bytes.Equal(written[headerSize:data], b.stored) {
					t.Errorf("block at %d: payload differs", b.off)
				}
				mine, theirs := bytes.Clone(written[:headerSize]), bytes.Clone(b.header)
				copy(mine[16:24], theirs[16:24])
				if mine[24] != theirs[24] {
					steps[diffChecksum] = true
					mine[24] = theirs[24]
				}
				if !bytes.Equal(mine, theirs) {
					t.Errorf("block at %d: header %x, ours %x", b.off, theirs, mine)
				}
			}
		} else {
			note(steps, diffGzip, written[headerSize:data], b.stored)
		}
		if sum == CRC32C {
			steps[diffChecksum] = true
		}
	}
	tr.last = prev
	before := trailer{}
	if before, err = parseTrailer(tb, int64(len(file)-trailerSize)); err != nil {
		t.Fatal(err)
	}
	if before.infoOffset != tr.infoOffset || before.loadOnOpen != tr.loadOnOpen || before.last != tr.last {
		steps[diffOffsets] = true
	}
	// Ours is Hudi's trailer with other offsets: writing Hudi's own offsets gives Hudi's own bytes.
	if !bytes.Equal(before.append(nil), tb) {
		t.Error("trailer differs from Hudi's beyond its offsets")
	}
	return tr.append(w.mem.Bytes()), steps
}

func note(steps map[string]bool, name string, a, b []byte) {
	if !bytes.Equal(a, b) {
		steps[name] = true
	}
}

func TestGoldenWrittenAgain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		file  string
		cfg   Config
		gz    bool
		steps []string
	}{
		{"none, no checksums", "none/" + goldenBase + ".gz", Config{Compression: None, Checksum: Null}, false,
			[]string{diffPrev, diffIndexKey, diffLastKey, diffCreateTime, diffOffsets}},
		{"none, CRC32C", "none/" + goldenBase + ".gz", Config{Compression: None}, false,
			[]string{diffPrev, diffIndexKey, diffLastKey, diffCreateTime, diffOffsets, diffChecksum}},
		{"gzip, no checksums", "gzip/" + goldenBase, Config{Checksum: Null}, true,
			[]string{diffPrev, diffIndexKey, diffLastKey, diffCreateTime, diffOffsets, diffGzip}},
		{"gzip, as we write", "gzip/" + goldenBase, Config{}, true,
			[]string{diffPrev, diffIndexKey, diffLastKey, diffCreateTime, diffOffsets, diffGzip, diffChecksum}},
	}
	doc := docPage(t)
	for _, tt := range tests {
		golden := testkit.File(t, "golden/mdt-files/"+tt.file)
		r := open(t, golden)
		tt.cfg.Schema = r.Schema()
		got := write(t, tt.cfg, mustAll(t, r))
		want, steps := asOurs(t, golden, tt.cfg.Checksum, tt.gz)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: file written again is not Hudi's with the listed differences: %d bytes, want %d, first at %d", tt.name, len(got), len(want), firstDiff(got, want))
		}
		for _, s := range tt.steps {
			if !steps[s] {
				t.Errorf("%s: difference %q did not occur", tt.name, s)
			}
			delete(steps, s)
			if !strings.Contains(doc, s) {
				t.Errorf("docs/format/hfile.md does not list %q", s)
			}
		}
		for s := range steps {
			t.Errorf("%s: unlisted difference %q", tt.name, s)
		}
		// Block borders and plain payloads are Hudi's own.
		mine, _ := split(t, got)
		theirs, _ := split(t, golden)
		if len(mine) != len(theirs) {
			t.Fatalf("%s: %d blocks, want %d", tt.name, len(mine), len(theirs))
		}
		for i := range mine {
			if mine[i].magic == magicData && !bytes.Equal(mine[i].payload, theirs[i].payload) {
				t.Errorf("%s: data block %d differs", tt.name, i)
			}
		}
	}
}

func firstDiff(a, b []byte) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// randomCells returns n cells in order; a part of the values cannot be compressed.
func randomCells(seed uint64, n, maxValue int) []Cell {
	rng := rand.New(rand.NewPCG(seed, 1))
	cells := make([]Cell, n)
	for i := range cells {
		v := make([]byte, rng.IntN(maxValue+1))
		if i%2 == 0 {
			for j := range v {
				v[j] = byte(rng.Uint32())
			}
		}
		cells[i] = Cell{fmt.Appendf(nil, "key-%08d", i*3), v}
	}
	return cells
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{}, {Compression: None}, {Checksum: Null}, {BlockSize: 300}, {Compression: None, Checksum: Null, BlockSize: 1}} {
		for _, n := range []int{0, 1, 2, 700} {
			cfg.Schema, cfg.Info = `"bytes"`, []KV{{"minRecordKey", []byte("a")}}
			cells := randomCells(uint64(n), n, 900)
			b := write(t, cfg, cells)
			if again := write(t, cfg, cells); !bytes.Equal(b, again) {
				t.Fatal("same cells, other bytes")
			}
			r := open(t, b)
			got := mustAll(t, r)
			if len(got) != n || r.Entries() != uint64(n) {
				t.Fatalf("%+v: %d cells, want %d", cfg, len(got), n)
			}
			for i := range got {
				if !bytes.Equal(got[i].Key, cells[i].Key) || !bytes.Equal(got[i].Value, cells[i].Value) {
					t.Fatalf("%+v: cell %d differs", cfg, i)
				}
			}
			if v, ok := r.Info("minRecordKey"); r.Schema() != `"bytes"` || !ok || string(v) != "a" {
				t.Errorf("file info: %q", r.InfoEntries())
			}
			checkLookup(t, r, cells)
		}
	}
}

// TestBlocksStaySmall checks the tail rule: Java readers up to 1.2.0 hide cells that start in the last
// 4*ceil((33+onDisk)/16384) bytes of a block's plain payload.
func TestBlocksStaySmall(t *testing.T) {
	t.Parallel()
	cells := randomCells(7, 3000, 700)
	cells = append(cells, Cell{[]byte("z1"), make([]byte, 300_000)}, Cell{[]byte("z2"), make([]byte, 10)})
	cells[len(cells)-2].Value = randomCells(8, 1, 300_000)[0].Value
	for _, cfg := range []Config{{}, {Compression: None}} {
		blocks, _ := split(t, write(t, cfg, cells))
		for _, b := range blocks {
			if b.magic != magicData {
				continue
			}
			hidden := 4 * ((headerSize + len(b.stored) + len(b.sums) + bytesPerChecksum - 1) / bytesPerChecksum)
			last := 0
			for at := 0; at < len(b.payload); {
				last = at
				at += 8 + int(binary.BigEndian.Uint32(b.payload[at:])) + int(binary.BigEndian.Uint32(b.payload[at+4:])) + 1
			}
			if len(b.payload)-last <= hidden {
				t.Errorf("block at %d: last cell of %d bytes, readers hide %d", b.off, len(b.payload)-last, hidden)
			}
			if len(b.payload) > DefaultBlockSize && last != 0 {
				t.Errorf("block at %d: %d bytes in more than one cell", b.off, len(b.payload))
			}
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		cfg  Config
		keys []string
	}{
		{"same key", Config{}, []string{"a", "a"}},
		{"descending", Config{}, []string{"b", "a"}},
		{"signed order", Config{}, []string{"\x80", "a"}},
		{"empty key", Config{}, []string{""}},
		{"long key", Config{}, []string{strings.Repeat("x", MaxKey+1)}},
		{"large blocks", Config{BlockSize: DefaultBlockSize + 1}, []string{"a"}},
		{"negative blocks", Config{BlockSize: -1}, nil},
	}
	for _, tt := range tests {
		w := NewWriter(tt.cfg)
		var err error
		for _, k := range tt.keys {
			err = w.Append([]byte(k), nil)
		}
		if len(tt.keys) > 0 && !errors.Is(err, storage.ErrRefused) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if _, err := w.Finish(); !errors.Is(err, storage.ErrRefused) {
			t.Errorf("%s: finish: %v", tt.name, err)
		}
	}
	w := NewWriter(Config{})
	if err := w.Append(bytes.Repeat([]byte{'k'}, MaxKey), []byte("v")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("second finish: %v", err)
	}
}

// TestEveryFlippedByte flips each byte of files of ours in three ways; reading the file whole must notice each.
func TestEveryFlippedByte(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	schema := `{"type":"record","name":"r","fields":[]}`
	files := map[string][]byte{
		"gzip":       write(t, Config{BlockSize: 400, Schema: schema}, randomCells(3, 30, 60)),
		"none":       write(t, Config{BlockSize: 400, Schema: schema, Compression: None}, randomCells(3, 12, 60)),
		"empty":      write(t, Config{}, nil),
		"multi byte": write(t, Config{}, randomCells(4, 60, 100)),
	}
	for name, file := range files {
		for at := range file {
			masks := []byte{0x01, 0x80, 0xff}
			if at%97 != 0 && file[at] == 0 && at > len(file)-trailerSize+200 && at < len(file)-4 {
				if at%3 != 0 {
					continue // padding: every third byte, in one way
				}
				masks = masks[at/3%3 : at/3%3+1]
			}
			for _, mask := range masks {
				file[at] ^= mask
				if r, err := Open(context.Background(), storage.BytesSource(file)); err == nil {
					if _, err = all(r, nil); err == nil {
						t.Errorf("%s: byte %d of %d xor %02x is not noticed", name, at, len(file), mask)
					} else if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
						t.Errorf("%s: byte %d: kind of %v", name, at, err)
					}
				} else if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
					t.Errorf("%s: byte %d: kind of %v", name, at, err)
				}
				file[at] ^= mask
			}
		}
	}
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	file := write(t, Config{BlockSize: 400}, randomCells(3, 30, 60))
	for n := range file {
		if _, err := Open(context.Background(), storage.BytesSource(file[:n])); !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if _, err := Open(context.Background(), storage.BytesSource(file[n:])); n > 0 && err == nil {
			r := open(t, file[n:])
			if _, err := all(r, nil); !errors.Is(err, storage.ErrCorrupt) {
				t.Fatalf("first %d bytes gone: %v", n, err)
			}
		}
	}
}

// choked takes so many bytes.
type choked struct{ left int }

var errChoked = errors.New("choked")

func (c *choked) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		return 0, errChoked
	}
	return len(p), nil
}

func TestWriterTo(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 5000} {
		var cells []Cell
		for i := range n {
			cells = append(cells, Cell{fmt.Appendf(nil, "key%06d", i), bytes.Repeat([]byte{byte(i)}, 100)})
		}
		want := write(t, Config{Schema: `"string"`}, cells)
		put := func(out io.Writer, ahead int) error {
			w := NewWriterTo(out, Config{Schema: `"string"`, Ahead: ahead})
			for _, c := range cells {
				if err := w.Append(c.Key, c.Value); err != nil {
					return err
				}
				if n := len(w.ahead) + len(w.idle); n > ahead+2 || len(w.ahead) > ahead {
					t.Fatalf("%d blocks in memory, %d ahead, allowed are %d", n, len(w.ahead), ahead)
				}
				if at := w.off + w.bound; w.Reaches(at + 1) {
					t.Fatalf("reaches %d, has %d", at+1, w.Size())
				}
			}
			if err := w.Close(); err != nil {
				return err
			}
			if w.Size() != int64(len(want)) {
				t.Errorf("size %d, want %d", w.Size(), len(want))
			}
			return nil
		}
		for _, ahead := range []int{0, 1, 2, 7} {
			var got bytes.Buffer
			if err := put(&got, ahead); err != nil || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%d cells, %d blocks ahead: %d bytes, want %d, %v", n, ahead, got.Len(), len(want), err)
			}
			for at := 0; at < len(want); at += 1 + len(want)/20 {
				if err := put(&choked{at}, ahead); !errors.Is(err, errChoked) {
					t.Errorf("%d cells, %d blocks ahead, room for %d bytes: %v", n, ahead, at, err)
				}
			}
		}
	}
}
