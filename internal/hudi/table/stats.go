package table

import (
	"context"
	"sync"

	"tidemark/internal/storage"
)

// Count is how much was read.
type Count struct {
	Requests, Bytes int64
}

// ReadStats counts what a Table asked of its store for data, by kind of file. Listings have no bytes. The timeline's own
// reads (commit metadata) are not in it.
type ReadStats struct {
	Base, Log, List Count
}

type kind int

const (
	kindBase kind = iota
	kindLog
	kindList
	kinds
)

type stats struct {
	mu     sync.Mutex // guards counts
	counts [kinds]Count
}

func (s *stats) add(k kind, n int64) {
	s.mu.Lock()
	s.counts[k].Requests++
	s.counts[k].Bytes += n
	s.mu.Unlock()
}

// Stats returns what has been read so far.
func (t *Table) Stats() ReadStats {
	t.stats.mu.Lock()
	defer t.stats.mu.Unlock()
	c := t.stats.counts
	return ReadStats{Base: c[kindBase], Log: c[kindLog], List: c[kindList]}
}

// source counts the reads of one file.
type source struct {
	storage.Source
	stats *stats
	kind  kind
}

func (t *Table) source(k kind, path string, size int64) storage.Source {
	return source{storage.FileSource(t.Store, path, size), &t.stats, k}
}

func (s source) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	b, err := s.Source.ReadRange(ctx, off, n)
	s.stats.add(s.kind, int64(len(b)))
	return b, err
}
