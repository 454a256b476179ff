package logfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"tidemark/internal/storage"
)

const (
	magic = "#HUDI#"
	// frameFixed is the size of a frame's magic and size field; the size field counts what follows.
	frameFixed = 14
	// minFrame is the smallest frame: version, type, empty header, content length, empty footer, trailer length.
	minFrame = frameFixed + 4 + 4 + 4 + 8 + 4 + 8

	wholeRead  = 4 << 20   // files up to this size are read in one request
	windowRead = 64 << 10  // what is read at a time otherwise
	maxContent = 1<<31 - 1 // readers hold a block's content in a Java array
)

// window reads a file through a buffer that is replaced, never overwritten.
type window struct {
	src  storage.Source
	size int64
	buf  []byte
	off  int64
}

// bytes returns n bytes at off, which must lie in the file.
func (w *window) bytes(ctx context.Context, off, n int64) ([]byte, error) {
	if off < w.off || off+n > w.off+int64(len(w.buf)) {
		want := max(n, windowRead)
		if w.size <= wholeRead {
			off, want = 0, w.size
		}
		buf, err := w.src.ReadRange(ctx, off, min(want, w.size-off))
		if err != nil {
			return nil, fmt.Errorf("read log file: %w", err)
		}
		w.buf, w.off = buf, off
		if w.size <= wholeRead {
			return w.bytes(ctx, off, n)
		}
	}
	return w.buf[off-w.off : off-w.off+n : off-w.off+n], nil
}

// Blocks returns the blocks of a log file in file order, with their content. Every byte of the file belongs to one of
// them: a region without a valid block comes as TypeCorrupt with a Reason and the scan goes on at the next magic. The last step
// may be an error: of src, or storage.ErrUnsupported for a format version or block type that is not known.
func Blocks(ctx context.Context, src storage.Source) iter.Seq2[Block, error] {
	return scan(ctx, src, true)
}

// Frames is Blocks without the content: Content is nil, ContentOffset and ContentSize say where it lies. It is for point
// look-ups into large HFile blocks.
func Frames(ctx context.Context, src storage.Source) iter.Seq2[Block, error] {
	return scan(ctx, src, false)
}

// Section returns a part of a file as a file of its own, for a block's content.
func Section(src storage.Source, off, size int64) storage.Source {
	return section{src: src, off: off, size: size}
}

type section struct {
	src       storage.Source
	off, size int64
}

func (s section) Size() int64 { return s.size }

func (s section) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off > s.size || n > s.size-off {
		return nil, fmt.Errorf("read %d bytes at %d of %d: short: %w", n, off, s.size, storage.ErrCorrupt)
	}
	return s.src.ReadRange(ctx, s.off+off, n)
}

func scan(ctx context.Context, src storage.Source, content bool) iter.Seq2[Block, error] {
	return func(yield func(Block, error) bool) {
		w := &window{src: src, size: src.Size()}
		for at := int64(0); at < w.size; {
			b, err := next(ctx, w, at, content)
			if !yield(b, err) || err != nil {
				return
			}
			at += b.Size
		}
	}
}

// next reads the block or corrupt region at byte at of the file.
func next(ctx context.Context, w *window, at int64, content bool) (Block, error) {
	b := Block{Type: TypeCorrupt, Offset: at}
	left := w.size - at
	if left < int64(len(magic)) {
		b.Size, b.Trailing, b.Reason = left, true, fmt.Sprintf("%d trailing bytes", left)
		return b, nil
	}
	reason, err := frame(ctx, w, &b, content)
	if err != nil || b.Size > 0 {
		return b, err
	}
	// The frame does not hold: everything up to the next magic is one corrupt region.
	end, err := findMagic(ctx, w, at+1)
	b = Block{Type: TypeCorrupt, Offset: at, Size: end - at, Reason: reason}
	return b, err
}

// frame checks the frame at b.Offset and parses it. It leaves b.Size at 0 and gives a reason if size field, trailer length
// or what follows do not fit together; a frame that fits but whose inside does not parse is corrupt as a whole.
func frame(ctx context.Context, w *window, b *Block, content bool) (reason string, err error) {
	at, left := b.Offset, w.size-b.Offset
	head, err := w.bytes(ctx, at, min(left, frameFixed))
	if err != nil {
		return "", err
	}
	if string(head[:len(magic)]) != magic {
		return "no magic", nil
	}
	if left < minFrame {
		return fmt.Sprintf("file ends %d bytes into a block", left), nil
	}
	size := int64(binary.BigEndian.Uint64(head[len(magic):]))
	if size < minFrame-frameFixed || size > left-frameFixed {
		return fmt.Sprintf("block of %d bytes, %d are left", size, left-frameFixed), nil
	}
	end := at + frameFixed + size
	tail, err := w.bytes(ctx, end-8, min(8+int64(len(magic)), w.size-end+8))
	if err != nil {
		return "", err
	}
	if n := int64(binary.BigEndian.Uint64(tail)); n != size+6 {
		return fmt.Sprintf("length at the end of the block is %d, want %d", n, size+6), nil
	}
	if rest := tail[8:]; len(rest) == len(magic) && string(rest) != magic {
		return "block is followed by neither a block nor the end of the file", nil
	}
	b.Size = frameFixed + size
	reason, err = parse(ctx, w, b, content)
	if err != nil {
		return "", err
	}
	if reason != "" {
		*b = Block{Type: TypeCorrupt, Offset: at, Size: b.Size, Reason: reason}
	}
	return "", nil
}

// parse reads what is between size field and trailer length of a frame that fits.
func parse(ctx context.Context, w *window, b *Block, content bool) (reason string, err error) {
	at, end := b.Offset+frameFixed, b.Offset+b.Size-8
	fixed, err := w.bytes(ctx, at, 8)
	if err != nil {
		return "", err
	}
	version, typ := int32(binary.BigEndian.Uint32(fixed)), BlockType(int32(binary.BigEndian.Uint32(fixed[4:])))
	if version != 1 && version != 2 {
		return "", b.unsupported("log format version %d", version)
	}
	if typ < TypeCommand || typ > TypeCDC || typ == TypeCorrupt {
		return "", b.unsupported("block type %d", typ)
	}
	b.Type = typ
	at += 8
	if b.Entries, at, reason, err = entries(ctx, w, at, end); err != nil || reason != "" {
		return "header: " + reason, err
	}
	b.Header = make(map[HeaderKey]string, len(b.Entries))
	for _, e := range b.Entries {
		b.Header[e.Key] = e.Value
	}
	if end-at < 8 {
		return "content length is cut", nil
	}
	length, err := w.bytes(ctx, at, 8)
	if err != nil {
		return "", err
	}
	at += 8
	n := int64(binary.BigEndian.Uint64(length))
	if n < 0 || n > end-at-4 || n > maxContent {
		return fmt.Sprintf("content of %d bytes, %d are left", n, end-at-4), nil
	}
	b.ContentOffset, b.ContentSize = at, n
	if content {
		if b.Content, err = w.bytes(ctx, at, n); err != nil {
			return "", err
		}
	}
	if b.Footer, at, reason, err = entries(ctx, w, at+n, end); err != nil || reason != "" {
		return "footer: " + reason, err
	}
	if at != end {
		return fmt.Sprintf("%d bytes behind the footer", end-at), nil
	}
	if b.Header[InstantTime] == "" {
		return "no instant time in the header", nil
	}
	return "", nil
}

// entries reads a header or footer map at byte at; it must end at or before end.
func entries(ctx context.Context, w *window, at, end int64) (list []HeaderEntry, next int64, reason string, err error) {
	take := func(n int64) []byte {
		if err != nil || n < 0 || n > end-at {
			return nil
		}
		var b []byte
		b, err = w.bytes(ctx, at, n)
		at += n
		return b
	}
	head := take(4)
	if head == nil {
		return nil, at, "entry count is cut", err
	}
	count := int64(int32(binary.BigEndian.Uint32(head)))
	if count < 0 || count > (end-at)/8 {
		return nil, at, fmt.Sprintf("%d entries in %d bytes", count, end-at), nil
	}
	seen := make(map[HeaderKey]bool, min(count, 16))
	for i := int64(0); i < count; i++ {
		pair := take(8)
		if pair == nil {
			return nil, at, fmt.Sprintf("entry %d of %d is cut", i, count), err
		}
		key, n := HeaderKey(int32(binary.BigEndian.Uint32(pair))), int64(int32(binary.BigEndian.Uint32(pair[4:])))
		value := take(n)
		if value == nil && n != 0 || err != nil {
			return nil, at, fmt.Sprintf("entry %d of %d bytes, %d are left", i, n, end-at), err
		}
		if seen[key] {
			return nil, at, fmt.Sprintf("key %d occurs twice", key), nil
		}
		seen[key] = true
		list = append(list, HeaderEntry{Key: key, Value: string(value)})
	}
	return list, at, "", nil
}

// findMagic returns the offset of the first magic at or after from; the file's size if there is none. Fewer than six bytes
// at the end belong to the region.
func findMagic(ctx context.Context, w *window, from int64) (int64, error) {
	for from+int64(len(magic)) <= w.size {
		n := min(w.size-from, windowRead)
		b, err := w.bytes(ctx, from, n)
		if err != nil {
			return w.size, err
		}
		if i := bytes.Index(b, []byte(magic)); i >= 0 {
			return from + int64(i), nil
		}
		from += n - int64(len(magic)) + 1
	}
	return w.size, nil
}
