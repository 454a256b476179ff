package basefile

import (
	"bytes"
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
// taken, whatever the bytes say. Without compression the result aliases b.
func decompress(codec format.CompressionCodec, b []byte, size int) ([]byte, error) {
	if size > maxPage {
		return nil, fmt.Errorf("page of %d bytes, more than %d: %w", size, maxPage, storage.ErrUnsupported)
	}
	var out []byte
	var err error
	switch codec {
	case format.Uncompressed:
		out = b
	case format.Gzip:
		out, err = gunzip(b, size)
	case format.Snappy:
		var n int
		if n, err = snappy.DecodedLen(b); err == nil && n == size {
			out, err = snappy.Decode(make([]byte, 0, size), b)
		}
	case format.Zstd:
		out, err = unzstd(b, size)
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

func gunzip(b []byte, size int) ([]byte, error) {
	if size == 0 && len(b) == 0 {
		return nil, nil
	}
	zr, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return readExactly(zr, size)
}

func unzstd(b []byte, size int) ([]byte, error) {
	zr, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage))
	if err != nil {
		return nil, err
	}
	defer zr.Close()
	return readExactly(zr, size)
}

// readExactly reads size bytes and looks for the end behind them, so that the stream's own checksum is checked. The
// memory grows with what really comes, since size is only what a header claims.
func readExactly(r io.Reader, size int) ([]byte, error) {
	var buf bytes.Buffer
	buf.Grow(min(size, 1<<20) + bytes.MinRead)
	if _, err := buf.ReadFrom(io.LimitReader(r, int64(size)+1)); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
