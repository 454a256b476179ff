package basefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"tidemark/internal/storage"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// maxPage bounds an unpacked page: 256 MiB. Hudi writes pages of 1 MiB; one value of a legal size always fits.
const maxPage = 256 << 20

// maxPageRows bounds the rows of a page: a run of nulls takes no bytes in the file but a byte a row in memory. Hudi's
// pages end at 20,000 rows.
const maxPageRows = 1 << 26

// decompress unpacks a page to exactly size bytes, the number that its header gives; never more memory than that is
// taken, whatever the bytes say. Without compression the result aliases b; else it lies in buf, if that is large enough.
func decompress(codec format.CompressionCodec, b []byte, size int, buf []byte) ([]byte, error) {
	if size > maxPage {
		return nil, fmt.Errorf("page of %d bytes, more than %d: %w", size, maxPage, storage.ErrUnsupported)
	}
	var out []byte
	var err error
	switch codec {
	case format.Uncompressed:
		out = b
	case format.Gzip:
		out, err = gunzip(b, size, buf)
	case format.Snappy:
		var n int
		if n, err = snappy.DecodedLen(b); err == nil && n == size {
			if cap(buf) < size {
				buf = make([]byte, size)
			}
			out, err = snappy.Decode(buf[:size], b)
		}
	case format.Zstd:
		out, err = unzstd(b, size, buf)
	default:
		return nil, fmt.Errorf("page compressed by %v: %w", codec, storage.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("unpack %v page: %w: %w", codec, err, storage.ErrCorrupt)
	}
	if len(out) != size {
		return nil, fmt.Errorf("%v page unpacks to %d bytes, want %d: %w", codec, len(out), size, storage.ErrCorrupt)
	}
	return out, nil
}

func gunzip(b []byte, size int, buf []byte) ([]byte, error) {
	if size == 0 && len(b) == 0 {
		return nil, nil
	}
	zr, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return readExactly(zr, size, len(b), buf)
}

func unzstd(b []byte, size int, buf []byte) ([]byte, error) {
	zr, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage))
	if err != nil {
		return nil, err
	}
	defer zr.Close()
	return readExactly(zr, size, len(b), buf)
}

// readExactly reads size bytes and looks for the end behind them, so that the stream's own checksum is checked. The
// memory grows with what really comes, since size is only what a header claims: more than 1 MiB and 8 times what is packed is
// not taken beforehand.
func readExactly(r io.Reader, size, packed int, buf []byte) ([]byte, error) {
	if size <= max(1<<20, 8*packed, cap(buf)) {
		out := buf[:min(size, cap(buf))]
		if len(out) < size {
			out = make([]byte, size)
		}
		n, err := io.ReadFull(r, out)
		if err != nil {
			return out[:n], err
		}
		if m, err := io.ReadFull(r, make([]byte, 1)); m > 0 || err != io.EOF {
			return nil, errors.Join(fmt.Errorf("more than %d bytes", size), err)
		}
		return out, nil
	}
	var all bytes.Buffer
	all.Grow(max(1<<20, 8*packed) + bytes.MinRead)
	if _, err := all.ReadFrom(io.LimitReader(r, int64(size)+1)); err != nil {
		return nil, err
	}
	return all.Bytes(), nil
}
