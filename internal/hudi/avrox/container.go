package avrox

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"

	"tidemark/internal/storage"
)

const (
	// maxUnpacked bounds a deflated block. Commit metadata of 300 MB is known from the field.
	maxUnpacked = 1 << 30
	// maxDeflate is more than deflate's best ratio, 1032:1, so a block that claims to unpack to more is damaged.
	maxDeflate = 1040
)

// Magic begins every Avro object container file.
var Magic = []byte{'O', 'b', 'j', 1}

// ReadContainer reads an Avro object container file: its schema and all its records. Codecs null and deflate are known,
// others are storage.ErrUnsupported. An empty file, a file cut anywhere but between two blocks, a wrong sync marker and
// any other damage are storage.ErrCorrupt. A file cut between header and first block has no records; callers that expect
// one must check.
func ReadContainer(b []byte) (*Schema, []Record, error) {
	schema, records, err := readContainer(b)
	if err != nil {
		return nil, nil, fmt.Errorf("read Avro container: %w", err)
	}
	return schema, records, nil
}

func readContainer(b []byte) (*Schema, []Record, error) {
	if len(b) == 0 {
		return nil, nil, corrupt("file is empty")
	}
	if !bytes.HasPrefix(b, Magic) {
		return nil, nil, corrupt("does not begin with Obj 1")
	}
	meta, b, err := readHeader(b[len(Magic):])
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	codec := string(meta["avro.codec"])
	if codec != "" && codec != "null" && codec != "deflate" {
		return nil, nil, fmt.Errorf("codec %q: %w", codec, storage.ErrUnsupported)
	}
	schema, err := ParseSchema(string(meta["avro.schema"]))
	if err != nil {
		return nil, nil, err
	}
	sync, b, err := take(b, 16, Fixed)
	if err != nil {
		return nil, nil, fmt.Errorf("sync marker: %w", err)
	}
	var records []Record
	for block := 1; len(b) > 0; block++ {
		records, b, err = readBlock(schema, records, b, codec == "deflate", sync)
		if err != nil {
			return nil, nil, fmt.Errorf("block %d: %w", block, err)
		}
	}
	return schema, records, nil
}

func readHeader(b []byte) (map[string][]byte, []byte, error) {
	meta := map[string][]byte{}
	b, err := blocks(b, func(b []byte) ([]byte, error) {
		n, b, err := count(b, "key length")
		if err != nil {
			return nil, err
		}
		key := string(b[:n])
		n, b, err = count(b[n:], "value length")
		if err != nil {
			return nil, err
		}
		meta[key] = b[:n]
		return b[n:], nil
	})
	return meta, b, err
}

func readBlock(s *Schema, records []Record, b []byte, deflated bool, sync []byte) ([]Record, []byte, error) {
	n, b, err := long(b)
	if err != nil {
		return nil, nil, err
	}
	size, b, err := count(b, "block size")
	if err != nil {
		return nil, nil, err
	}
	data, b := b[:size], b[size:]
	mark, b, err := take(b, 16, Fixed)
	if err != nil {
		return nil, nil, fmt.Errorf("sync marker: %w", err)
	}
	if !bytes.Equal(mark, sync) {
		return nil, nil, corrupt("sync marker differs from the header's")
	}
	if deflated {
		if data, err = inflate(data); err != nil {
			return nil, nil, err
		}
	}
	if n < 0 || n > max(int64(len(data)), 1) {
		return nil, nil, corrupt("%d records in %d bytes", n, len(data))
	}
	for ; n > 0; n-- {
		var rec Record
		if rec, data, err = s.Decode(data); err != nil {
			return nil, nil, err
		}
		records = append(records, rec)
	}
	if len(data) > 0 {
		return nil, nil, corrupt("%d bytes after the last record", len(data))
	}
	return records, b, nil
}

func inflate(data []byte) ([]byte, error) {
	limit := min(maxUnpacked, int64(len(data))*maxDeflate+64)
	r := flate.NewReader(bytes.NewReader(data))
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, corrupt("inflate: %v", err)
	}
	if int64(len(out)) > limit {
		return nil, corrupt("inflates to more than %d bytes", limit)
	}
	return out, nil
}
