package logfile

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

func hdr(instant string, more ...string) []HeaderEntry {
	h := []HeaderEntry{{InstantTime, instant}}
	for i := 0; i+1 < len(more); i += 2 {
		key := map[string]HeaderKey{"schema": SchemaKey, "target": TargetInstantTime, "command": CommandType, "compacted": CompactedBlockTimes}[more[i]]
		h = append(h, HeaderEntry{key, more[i+1]})
	}
	return h
}

// data returns an Avro block with one record that names the block.
func data(instant, record string, more ...string) []byte {
	return AppendBlock(nil, TypeAvro, hdr(instant, append([]string{"schema", `"string"`}, more...)...), AvroContent(nil, [][]byte{[]byte(record)}))
}

func rollback(instant, target string) []byte {
	return AppendBlock(nil, TypeCommand, hdr(instant, "command", "0", "target", target), nil)
}

func TestNames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		base string
		want Name
		ok   bool
	}{
		{".ff32ab89-5ad0-0_20250316025816068.log.1_0-54-122", Name{"ff32ab89-5ad0-0", "20250316025816068", 1, "0-54-122", false}, true},
		{".files-0000-0_00000000000000000.log.1_0-0-0", Name{"files-0000-0", "00000000000000000", 1, "0-0-0", false}, true},
		{".f_1.log.12", Name{"f", "1", 12, "", false}, true},
		{".f_1.log.2_1-0-1.cdc", Name{"f", "1", 2, "1-0-1", true}, true},
		{"f_1.log.1_0-0-0", Name{}, false},
		{".f_1.log.1_0-0", Name{}, false},
		{".f_1.log.1_0-0-0-0", Name{}, false},
		{".f_1.log.1_0-x-0", Name{}, false},
		{".f_1.log.1_0-0-0.crc", Name{}, false},
		{".f_1.log._0-0-0", Name{}, false},
		{".f_1.log.99999999999_0-0-0", Name{}, false},
		{".f_1.log.3000000000", Name{}, false},
		{"._1.log.1_0-0-0", Name{}, false},
		{".f_.log.1_0-0-0", Name{}, false},
		{".f.g_1.log.1_0-0-0", Name{}, false},
		{".f_1.2.log.1_0-0-0", Name{}, false},
		{".f_1.archive.1_0-0-0", Name{}, false},
		{".hoodie_partition_metadata", Name{}, false},
		{"f_0-0-0_1_1.log.hfile", Name{}, false},
		{"", Name{}, false},
	}
	for _, tt := range tests {
		got, ok := ParseName(tt.base)
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("%q: %+v %v", tt.base, got, ok)
		}
		if ok && got.String() != tt.base {
			t.Errorf("%q prints as %q", tt.base, got)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	order := []string{
		".f_1.log.1", ".f_1.log.1_0-0-0", ".f_1.log.1_0-0-0.cdc", ".f_1.log.1_1-0-0", ".f_1.log.2_0-0-0", ".f_1.log.10_0-0-0",
		".f_10.log.1_0-0-0", ".f_2.log.1_0-0-0",
	}
	for i := range order {
		for j := range order {
			a, _ := ParseName(order[i])
			b, _ := ParseName(order[j])
			if got := Compare(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%s against %s: %d", order[i], order[j], got)
			}
		}
	}
}

// effective returns the records that count, in order.
func effective(t *testing.T, keep func(string) bool, blocks ...[]byte) string {
	t.Helper()
	var out []string
	for _, b := range Effective(read(t, bytes.Join(blocks, nil)), keep) {
		records, err := b.AvroRecords()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(records[0]))
	}
	return strings.Join(out, " ")
}

func TestEffective(t *testing.T) {
	t.Parallel()
	not := func(gone ...string) func(string) bool {
		return func(i string) bool {
			for _, g := range gone {
				if g == i {
					return false
				}
			}
			return true
		}
	}
	tests := []struct {
		name   string
		keep   func(string) bool
		blocks [][]byte
		want   string
	}{
		{"plain", nil, [][]byte{data("1", "a"), data("2", "b")}, "a b"},
		{"two blocks of one instant stand together", nil, [][]byte{data("1", "a"), data("2", "b"), data("1", "c")}, "a c b"},
		{"filtered", not("2"), [][]byte{data("1", "a"), data("2", "b"), data("3", "c")}, "a c"},
		{"unfinished block first does not stop the scan", not("5"), [][]byte{data("5", "x"), data("3", "c")}, "c"},
		{"rollback", nil, [][]byte{data("1", "a"), data("2", "b"), rollback("3", "2")}, "a"},
		{"rollback far from its target, target written again", nil, [][]byte{data("2", "x"), data("3", "c"), rollback("4", "2"), data("2", "b")}, "c b"},
		{"rollback newer than every bound", func(i string) bool { return i <= "5" }, [][]byte{data("2", "x"), rollback("6", "2"), data("5", "e")}, "e"},
		{"rollback of nothing", nil, [][]byte{data("1", "a"), rollback("3", "9")}, "a"},
		{"log compaction replaces", nil, [][]byte{data("1", "a"), data("2", "b"), data("3", "ab", "compacted", "1,2"), data("4", "d")}, "ab d"},
		{"log compaction at the place of the newest it replaces", nil, [][]byte{data("1", "a"), data("2", "b"), data("25", "x"), data("3", "ab", "compacted", "1,2")}, "ab x"},
		{"log compaction of log compactions", nil, [][]byte{data("1", "a"), data("2", "b"), data("3", "ab", "compacted", "1,2"), data("4", "d"), data("5", "abd", "compacted", "3,4")}, "abd"},
		{"log compaction that is not visible", not("3"), [][]byte{data("1", "a"), data("2", "b"), data("3", "ab", "compacted", "1,2")}, "a b"},
		{"rolled back log compaction", nil, [][]byte{data("1", "a"), data("2", "b"), data("3", "ab", "compacted", "1,2"), rollback("4", "3")}, "a b"},
		{"nothing", nil, nil, ""},
	}
	for _, tt := range tests {
		if got := effective(t, tt.keep, tt.blocks...); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	// Corrupt regions never count.
	file := append(data("1", "a"), "#HUDI#garbage"...)
	if got := effective(t, nil, file); got != "a" {
		t.Errorf("with a damaged tail: %q", got)
	}
}

// five is a file of five blocks and where the third starts and ends.
func five() (file []byte, start, end int) {
	for i := 1; i <= 5; i++ {
		if i == 3 {
			start = len(file)
		}
		file = append(file, data(fmt.Sprint(i), fmt.Sprintf("record %d", i))...)
		if i == 3 {
			end = len(file)
		}
	}
	return file, start, end
}

// TestDamageInTheMiddle flips every byte of the middle block of five: the others are always kept, every byte is accounted
// for, and a change outside of the header values and content is noticed.
func TestDamageInTheMiddle(t *testing.T) {
	t.Parallel()
	file, start, end := five()
	for at := start; at < end; at++ {
		for _, mask := range []byte{0x01, 0x80, 0xff} {
			b := bytes.Clone(file)
			b[at] ^= mask
			blocks, err := collect(b)
			if err != nil {
				if !errors.Is(err, storage.ErrUnsupported) {
					t.Fatalf("byte %d: %v", at, err)
				}
				continue
			}
			var seen []string
			next := int64(0)
			for _, blk := range blocks {
				if blk.Offset != next {
					t.Fatalf("byte %d: block at %d, want %d", at, blk.Offset, next)
				}
				next += blk.Size
				if blk.Type == TypeCorrupt && blk.Reason == "" {
					t.Errorf("byte %d: corrupt without reason", at)
				}
				if records, err := blk.AvroRecords(); err == nil && len(records) == 1 {
					seen = append(seen, string(records[0]))
				}
			}
			if next != int64(len(b)) {
				t.Fatalf("byte %d: %d of %d bytes accounted for", at, next, len(b))
			}
			all := strings.Join(seen, ",")
			// A damaged magic makes block 2 corrupt as well: it is followed by neither block nor end, as in Hudi.
			kept := []string{"record 1", "record 4", "record 5"}
			if at >= start+6 {
				kept = append(kept, "record 2")
			}
			for _, r := range kept {
				if !strings.Contains(all, r) {
					t.Errorf("byte %d xor %02x: %q is lost, have %s", at, mask, r, all)
				}
			}
		}
	}
}

func TestTruncatedFile(t *testing.T) {
	t.Parallel()
	file, _, _ := five()
	sizes := []int{}
	for _, b := range read(t, file) {
		sizes = append(sizes, int(b.Offset+b.Size))
	}
	for n := range file {
		whole := 0
		for _, s := range sizes {
			if s <= n {
				whole++
			}
		}
		blocks := read(t, file[:n])
		good, left := 0, n
		for _, b := range blocks {
			left -= int(b.Size)
			if b.Type == TypeAvro {
				good++
			}
		}
		rest := 0
		if whole > 0 {
			rest = n - sizes[whole-1]
		} else {
			rest = n
		}
		last := whole
		if good != last || left != 0 {
			t.Fatalf("cut at %d: %d good blocks, want %d, %d bytes unaccounted", n, good, last, left)
		}
		if rest > 0 {
			tail := blocks[len(blocks)-1]
			if tail.Type != TypeCorrupt || tail.Reason == "" || tail.Trailing != (rest < 6) {
				t.Fatalf("cut at %d: tail %+v", n, tail)
			}
		}
	}
	if blocks := read(t, nil); len(blocks) != 0 {
		t.Errorf("empty file: %v", blocks)
	}
}

func TestTrailingBytes(t *testing.T) {
	t.Parallel()
	good := data("1", "a")
	// Up to five bytes are the end of the file; six that are no magic damage the block before them.
	blocks := read(t, append(bytes.Clone(good), 1, 2, 3))
	if len(blocks) != 2 || blocks[0].Type != TypeAvro || !blocks[1].Trailing || blocks[1].Size != 3 {
		t.Errorf("three bytes: %+v", blocks)
	}
	blocks = read(t, append(bytes.Clone(good), 1, 2, 3, 4, 5, 6))
	if len(blocks) != 1 || blocks[0].Type != TypeCorrupt || blocks[0].Trailing {
		t.Errorf("six bytes: %+v", blocks)
	}
	blocks = read(t, append([]byte("junk in front"), good...))
	if len(blocks) != 2 || blocks[0].Type != TypeCorrupt || blocks[0].Size != 13 || blocks[1].Type != TypeAvro {
		t.Errorf("junk in front: %+v", blocks)
	}
}

func TestUnsupportedAndBadFrames(t *testing.T) {
	t.Parallel()
	frame := func(version, typ uint32, body []byte) []byte {
		b := append([]byte(magic), make([]byte, 8)...)
		b = binary.BigEndian.AppendUint32(b, version)
		b = binary.BigEndian.AppendUint32(b, typ)
		b = append(b, body...)
		size := uint64(len(b) + 8 - frameFixed)
		binary.BigEndian.PutUint64(b[6:], size)
		return binary.BigEndian.AppendUint64(b, size+6)
	}
	u32 := func(v ...uint32) []byte {
		var b []byte
		for _, x := range v {
			b = binary.BigEndian.AppendUint32(b, x)
		}
		return b
	}
	good := append(u32(1, 0, 1), '1')
	for name, f := range map[string][]byte{
		"version 0": frame(0, 3, append(good, u32(0, 0, 0)...)),
		"version 3": frame(3, 3, append(good, u32(0, 0, 0)...)),
		"type 7":    frame(1, 7, append(good, u32(0, 0, 0)...)),
		"type 2":    frame(1, 2, append(good, u32(0, 0, 0)...)),
		"type -1":   frame(1, 1<<32-1, append(good, u32(0, 0, 0)...)),
	} {
		if _, err := collect(f); !errors.Is(err, storage.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, body := range map[string][]byte{
		"header count":         u32(1<<31-1, 0, 0, 0),
		"negative count":       u32(1<<31, 0, 0, 0),
		"header entry cut":     u32(1, 0, 99, 0),
		"negative entry":       u32(1, 0, 1<<31, 0),
		"entry cut":            u32(2, 0, 4, 0x31313131, 0, 0),
		"content length cut":   append(good, u32(0)...),
		"huge content":         append(good, u32(0x7fffffff, 0xffffffff, 0)...),
		"negative content":     append(good, u32(1<<31, 0, 0)...),
		"footer cut":           append(good, u32(0, 4, 7)...),
		"footer count":         append(good, u32(0, 0, 9)...),
		"bytes behind":         append(good, u32(0, 0, 0, 0)...),
		"no instant":           u32(0, 0, 0, 0),
		"one header key twice": append(append(append(u32(2, 0, 1), '1'), append(u32(0, 1), '2')...), u32(0, 0, 0)...),
	} {
		blocks, err := collect(append(frame(1, 3, body), data("9", "z")...))
		if err != nil || len(blocks) != 2 || blocks[0].Type != TypeCorrupt || blocks[1].Type != TypeAvro {
			t.Errorf("%s: %+v %v", name, blocks, err)
		}
	}
	// Footers are kept, version 2 is read.
	f := appendFrame(nil, TypeAvro, hdr("1"), nil, []HeaderEntry{{9, "x"}})
	binary.BigEndian.PutUint32(f[14:], 2)
	blocks := read(t, f)
	if len(blocks) != 1 || blocks[0].Type != TypeAvro || len(blocks[0].Footer) != 1 || blocks[0].Footer[0].Value != "x" {
		t.Errorf("footer: %+v", blocks)
	}
}

func TestFramesAndSections(t *testing.T) {
	t.Parallel()
	// Above the size that is read at once: content is not fetched, and damage is found across windows.
	big := AppendBlock(nil, TypeHFile, hdr("1", "schema", "s"), make([]byte, wholeRead))
	file := append(append(append([]byte{}, big...), "#HUDI#broken"...), make([]byte, windowRead+100)...)
	file = append(file, data("2", "b")...)
	// The region behind the big block starts with a magic, so the big block holds.
	src := &counting{Source: storage.BytesSource(file)}
	var blocks []Block
	for b, err := range Frames(context.Background(), src) {
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, b)
	}
	if len(blocks) != 3 || blocks[0].Type != TypeHFile || blocks[1].Type != TypeCorrupt || blocks[2].Instant() != "2" {
		t.Fatalf("%d blocks: %+v", len(blocks), blocks)
	}
	if blocks[0].Content != nil || src.bytes > 6*windowRead {
		t.Errorf("%d bytes read for frames", src.bytes)
	}
	sec := Section(src, blocks[2].ContentOffset, blocks[2].ContentSize)
	got, err := sec.ReadRange(context.Background(), 12, 1)
	if err != nil || string(got) != "b" || sec.Size() != 13 {
		t.Errorf("section: %q %v", got, err)
	}
	for _, r := range [][2]int64{{-1, 1}, {0, 14}, {14, 0}, {3, -1}} {
		if _, err := sec.ReadRange(context.Background(), r[0], r[1]); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("range %v: %v", r, err)
		}
	}
	for b, err := range Blocks(context.Background(), src) {
		if err != nil || b.Type == TypeHFile && len(b.Content) != wholeRead {
			t.Fatalf("%v, %d bytes", err, len(b.Content))
		}
		break
	}
	boom := errors.New("boom")
	for n := range 6 {
		src := &counting{Source: storage.BytesSource(file), fail: n + 1, err: boom}
		var err error
		for _, err = range Blocks(context.Background(), src) {
			if err != nil {
				break
			}
		}
		if !errors.Is(err, boom) {
			t.Errorf("read %d fails: %v", n+1, err)
		}
	}
	small := &counting{Source: storage.BytesSource(data("1", "a"))}
	for range Blocks(context.Background(), small) {
	}
	if small.reads != 1 {
		t.Errorf("small file: %d reads", small.reads)
	}
}

type counting struct {
	storage.Source
	reads, fail int
	bytes       int64
	err         error
}

func (c *counting) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	c.reads++
	c.bytes += n
	if c.reads == c.fail {
		return nil, c.err
	}
	return c.Source.ReadRange(ctx, off, n)
}

func TestDeletes(t *testing.T) {
	t.Parallel()
	list := []Delete{
		{"none", "p", Ordering{}},
		{"bool", "", Ordering{Kind: OrderingBool, Int: 1}},
		{"int", "", Ordering{Kind: OrderingInt, Int: -7}},
		{"long", "", Ordering{Kind: OrderingLong, Int: 1 << 40}},
		{"float", "", Ordering{Kind: OrderingFloat, Float: 0.5}},
		{"double", "", Ordering{Kind: OrderingDouble, Float: -1e300}},
		{"bytes", "", Ordering{Kind: OrderingBytes, Bytes: []byte{0, 1}}},
		{"string", "", Ordering{Kind: OrderingString, Bytes: []byte("x")}},
		{"date", "", Ordering{Kind: OrderingDate, Int: 20000}},
		{"decimal", "", Ordering{Kind: OrderingDecimal, Bytes: []byte{0xff}}},
		{"time", "", Ordering{Kind: OrderingTimeMicros, Int: 5}},
		{"stamp", "", Ordering{Kind: OrderingTimestampMicros, Int: 6}},
		{"two", "", Ordering{Kind: OrderingList, Parts: []Ordering{{Kind: OrderingLong, Int: 100}, {Kind: OrderingString, Bytes: []byte("z")}}}},
		{"one of them null", "", Ordering{Kind: OrderingList, Parts: []Ordering{{}, {Kind: OrderingDate, Int: 20000}}}},
	}
	content := DeleteContent(nil, list)
	b := Block{Type: TypeDelete, Content: content}
	got, err := b.Deletes()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(list) {
		t.Fatalf("%v\n%v\n%v", got, list, err)
	}
	for n := range content {
		cut := bytes.Clone(content[:n])
		if n >= 8 {
			binary.BigEndian.PutUint32(cut[4:], uint32(n-8))
		}
		if _, err := (Block{Type: TypeDelete, Content: cut}).Deletes(); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	raw := func(body ...byte) Block {
		c := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 3}, uint32(len(body)))
		return Block{Type: TypeDelete, Content: append(c, body...)}
	}
	tests := []struct {
		name string
		b    Block
		want error
		n    int
	}{
		{"empty", raw(0), nil, 0},
		{"null ordering", raw(2, 2, 2, 'k', 0, 0, 0), nil, 1},
		{"array block with its size", raw(1, 12, 2, 2, 'k', 0, 0, 0), nil, 1},
		{"list that is null", raw(2, 2, 2, 'k', 0, 24, 0, 0), storage.ErrCorrupt, 0},
		{"list with a local date", raw(2, 2, 2, 'k', 0, 24, 2, 2, 24, 8, 0, 0), nil, 1},
		{"list with a huge count", raw(2, 2, 2, 'k', 0, 24, 2, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0), storage.ErrCorrupt, 0},
		{"list in a list", raw(2, 2, 2, 'k', 0, 24, 2, 2, 26, 2, 2, 2, 0, 0, 0), storage.ErrCorrupt, 0},
		{"branch 13", raw(2, 2, 2, 'k', 0, 26, 0, 0), storage.ErrUnsupported, 0},
		{"branch -1", raw(2, 2, 2, 'k', 0, 1, 0, 0), storage.ErrCorrupt, 0},
		{"no key", raw(2, 0, 0, 0, 0), storage.ErrCorrupt, 0},
		{"union branch 2", raw(2, 4, 2, 'k', 0, 0, 0), storage.ErrCorrupt, 0},
		{"boolean 2", raw(2, 2, 2, 'k', 0, 2, 2, 0), storage.ErrCorrupt, 0},
		{"int too large", raw(2, 2, 2, 'k', 0, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0), storage.ErrCorrupt, 0},
		{"huge count", raw(0xfe, 0xff, 0xff, 0xff, 0x0f, 0), storage.ErrCorrupt, 0},
		{"smallest count", raw(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0), storage.ErrCorrupt, 0},
		{"huge string", raw(2, 2, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0), storage.ErrCorrupt, 0},
		{"endless varint", raw(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0), storage.ErrCorrupt, 0},
		{"bytes behind", raw(0, 0), storage.ErrCorrupt, 0},
		{"version 2", Block{Type: TypeDelete, Content: []byte{0, 0, 0, 2, 0, 0, 0, 0}}, storage.ErrUnsupported, 0},
		{"wrong length", Block{Type: TypeDelete, Content: []byte{0, 0, 0, 3, 0, 0, 0, 9, 0}}, storage.ErrCorrupt, 0},
		{"no delete block", Block{Type: TypeAvro}, storage.ErrUnsupported, 0},
	}
	for _, tt := range tests {
		got, err := tt.b.Deletes()
		if tt.want == nil && (err != nil || len(got) != tt.n) || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v %v", tt.name, got, err)
		}
	}
}

func TestBadRecordsAndPositions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		b    Block
		want error
	}{
		"short":        {Block{Type: TypeAvro, Content: []byte{0, 0, 0}}, storage.ErrCorrupt},
		"version":      {Block{Type: TypeAvro, Content: []byte{0, 0, 0, 4, 0, 0, 0, 0}}, storage.ErrUnsupported},
		"huge count":   {Block{Type: TypeAvro, Content: []byte{0, 0, 0, 3, 0x7f, 0, 0, 0}}, storage.ErrCorrupt},
		"record cut":   {Block{Type: TypeAvro, Content: []byte{0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 9, 0}}, storage.ErrCorrupt},
		"second cut":   {Block{Type: TypeAvro, Content: []byte{0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 1}}, storage.ErrCorrupt},
		"bytes behind": {Block{Type: TypeAvro, Content: []byte{0, 0, 0, 3, 0, 0, 0, 0, 1}}, storage.ErrCorrupt},
		"no records":   {Block{Type: TypeHFile}, storage.ErrUnsupported},
	} {
		if _, err := tt.b.AvroRecords(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bucket := func(high uint32, bitmap string) string {
		b, _ := base64.StdEncoding.DecodeString("AQAAAAAAAAAAAAAA" + bitmap)
		return string(binary.LittleEndian.AppendUint32(nil, high)) + string(b[12:])
	}
	one := bucket(0, "OzAAAAEAAAsAAQAAAAsA")
	for name, raw := range map[string]string{
		"not base64":     "!",
		"cut":            "\x01",
		"huge buckets":   "\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00",
		"bucket cut":     "\x01\x00\x00\x00\x00\x00\x00\x00" + one[:7],
		"not ascending":  "\x02\x00\x00\x00\x00\x00\x00\x00" + one + one,
		"bytes behind":   "\x01\x00\x00\x00\x00\x00\x00\x00" + one + "x",
		"second missing": "\x02\x00\x00\x00\x00\x00\x00\x00" + one,
		"bad cookie":     "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00junkjunkjunk",
	} {
		text := raw
		if name != "not base64" {
			text = base64.StdEncoding.EncodeToString([]byte(raw))
		}
		b := Block{Type: TypeAvro, Header: map[HeaderKey]string{RecordPositions: text}}
		if _, _, err := b.Positions(); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("positions, %s: %v", name, err)
		}
	}
	two := "\x02\x00\x00\x00\x00\x00\x00\x00" + one + bucket(1, "OzAAAAEAAAsAAQAAAAsA")
	b := Block{Header: map[HeaderKey]string{RecordPositions: base64.StdEncoding.EncodeToString([]byte(two))}}
	if pos, _, err := b.Positions(); err != nil || len(pos) != 24 || pos[12] != 1<<32 {
		t.Errorf("two buckets: %v %v", pos, err)
	}
	// 2^27 and more positions from a few bytes: full run containers.
	var wide []byte
	wide = binary.LittleEndian.AppendUint64(wide, 1)
	wide = binary.LittleEndian.AppendUint32(wide, 0)
	n := 2100
	wide = binary.LittleEndian.AppendUint32(wide, uint32(12347|(n-1)<<16))
	for range (n + 7) / 8 {
		wide = append(wide, 0xff)
	}
	for i := range n {
		wide = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(wide, uint16(i)), 0xffff)
	}
	start := len(wide) - 12 + 4*n
	for i := range n {
		wide = binary.LittleEndian.AppendUint32(wide, uint32(start+6*i))
	}
	for range n {
		wide = append(wide, 1, 0, 0, 0, 0xff, 0xff)
	}
	b.Header[RecordPositions] = base64.StdEncoding.EncodeToString(wide)
	if _, _, err := b.Positions(); !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), "too many") {
		t.Errorf("2100 full containers: %v", err)
	}
}

func TestAccessors(t *testing.T) {
	t.Parallel()
	b := Block{Header: map[HeaderKey]string{IsPartial: "TRUE", CompactedBlockTimes: "1, 2,,3", SchemaKey: "s"}}
	if !b.Partial() || fmt.Sprint(b.CompactedTimes()) != "[1 2 3]" || b.Schema() != "s" || (Block{}).CompactedTimes() != nil || (Block{}).Partial() {
		t.Errorf("%v %v", b.Partial(), b.CompactedTimes())
	}
	if TypeHFile.String() != "HFILE_DATA" || BlockType(9).String() != "type 9" || BlockType(-1).String() != "type -1" {
		t.Error("names of kinds")
	}
	if (Block{Type: TypeCommand, Header: map[HeaderKey]string{CommandType: "1", TargetInstantTime: "x"}}).IsData() {
		t.Error("command is data")
	}
	if _, ok := (Block{Type: TypeCommand, Header: map[HeaderKey]string{CommandType: "1", TargetInstantTime: "x"}}).Rollback(); ok {
		t.Error("unknown command rolls back")
	}
}

func TestGoldenLog(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gzip/.vector-index-0000-0_20261130010203004.log.1_0-0-0", "none/.vector-index-0000-0_20261130010203004.log.1_0-0-0.gz"} {
		b := testkit.File(t, "golden/mdt-files/"+name)
		blocks := read(t, b)
		if len(blocks) != 1 || blocks[0].Type != TypeHFile || blocks[0].Instant() != "20261130010203004" || !strings.Contains(blocks[0].Schema(), "HoodieVectorIndexTombstone") {
			t.Fatalf("%s: %d blocks", name, len(blocks))
		}
		if got := again(t, blocks); !bytes.Equal(got, b) {
			t.Errorf("%s: written again it differs", name)
		}
	}
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	header := []HeaderEntry{{Key: SchemaKey, Value: `"string"`}, {Key: InstantTime, Value: "20260101000000001"}}
	for _, n := range []int{0, 1, 1000} {
		content := bytes.Repeat([]byte{7}, n)
		before, after := Envelope(TypeHFile, header, int64(n))
		if got := slices.Concat(before, content, after); !bytes.Equal(got, AppendBlock(nil, TypeHFile, header, content)) {
			t.Errorf("%d bytes: not what AppendBlock appends", n)
		}
	}
}
