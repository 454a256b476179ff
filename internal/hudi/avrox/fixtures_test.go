package avrox_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/testkit"
)

// Every Avro file on a timeline and every Avro record in a log file of every fixture table decodes, whole.
func TestEveryFixtureDecodes(t *testing.T) {
	t.Parallel()
	tables, err := filepath.Glob(testkit.Path("tables/*.tar.gz"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no fixture tables", err)
	}
	for _, file := range tables {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			var containers, logRecords int
			walk(t, file, func(name string, body []byte) {
				switch {
				case bytes.HasPrefix(body, avrox.Magic):
					_, records, err := avrox.ReadContainer(body)
					if err != nil || len(records) != 1 {
						t.Errorf("%s: %d records, %v", name, len(records), err)
					}
					containers++
				case bytes.HasPrefix(body, []byte("#HUDI#")):
					n, err := decodeLog(body)
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
					logRecords += n
				}
			})
			t.Logf("%d container files, %d log records", containers, logRecords)
		})
	}
}

func walk(t *testing.T, file string, fn func(name string, body []byte)) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg || strings.HasSuffix(h.Name, ".parquet") {
			continue
		}
		body, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		fn(h.Name, body)
	}
}

// decodeLog is the least of a log file reader that finds Avro data blocks in undamaged files.
func decodeLog(b []byte) (records int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("log layout: %v", r)
		}
	}()
	for len(b) > 0 {
		frame := 14 + int(binary.BigEndian.Uint64(b[6:]))
		n, err := decodeBlock(b[18:frame], binary.BigEndian.Uint32(b[18:]))
		if err != nil {
			return records, err
		}
		records += n
		b = b[frame:]
	}
	return records, nil
}

func decodeBlock(b []byte, kind uint32) (int, error) {
	const avroData, schemaHeader = 3, 2
	var schema string
	headers := binary.BigEndian.Uint32(b[4:])
	b = b[8:]
	for range headers {
		key, size := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
		if key == schemaHeader {
			schema = string(b[8 : 8+size])
		}
		b = b[8+size:]
	}
	if kind != avroData {
		return 0, nil
	}
	s, err := avrox.ParseSchema(schema)
	if err != nil {
		return 0, err
	}
	count := binary.BigEndian.Uint32(b[12:])
	b = b[16:]
	for i := range count {
		size := binary.BigEndian.Uint32(b)
		_, rest, err := s.Decode(b[4 : 4+size])
		if err != nil || len(rest) > 0 {
			return 0, fmt.Errorf("record %d: %d bytes left, %w", i, len(rest), err)
		}
		b = b[4+size:]
	}
	return int(count), nil
}
