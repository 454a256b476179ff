package search_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/coverage"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/search"
)

// distant is a store behind a network that takes a second for every call: in a bubble, the seconds that pass are how many calls had to wait
// for one another, whatever the machine is busy with.
type distant struct {
	storage.Store
	mu       sync.Mutex
	requests map[string]int
	bytes    int64
	log      []string
}

func (d *distant) Broad() bool { return true }

func (d *distant) ask(kind, path string, bytes int) {
	time.Sleep(time.Second)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.requests == nil {
		d.requests = map[string]int{}
	}
	d.requests[kind]++
	d.bytes += int64(bytes)
	d.log = append(d.log, time.Now().Format("05 ")+kind+" "+path)
}

func (d *distant) ReadFile(ctx context.Context, path string) ([]byte, storage.Info, error) {
	b, info, err := d.Store.ReadFile(ctx, path)
	d.ask("read", path, len(b))
	return b, info, err
}

func (d *distant) ReadRange(ctx context.Context, path string, off, n int64) ([]byte, error) {
	b, err := d.Store.ReadRange(ctx, path, off, n)
	d.ask("range", fmt.Sprint(path[strings.LastIndex(path, "/")+1:], " ", off, "+", n), len(b))
	return b, err
}

func (d *distant) Stat(ctx context.Context, path string) (storage.Info, error) {
	info, err := d.Store.Stat(ctx, path)
	d.ask("stat", path, 0)
	return info, err
}

func (d *distant) List(ctx context.Context, dir string) ([]storage.Info, error) {
	list, err := d.Store.List(ctx, dir)
	d.ask("list", dir, 0)
	return list, err
}

var errWritten = errors.New("a search writes")

func (d *distant) Create(context.Context, string, []byte) (storage.Info, error) {
	return storage.Info{}, errWritten
}

// A cold query asks for what does not depend on each other at once.
func TestRoundsOfAColdQuery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		table, clusters string
		most            int
	}{
		{"mor_basic", "64", 8},    // many small files, logs
		{"demo_words", "128", 10}, // larger ones, cleaned
	} {
		st := indexed(t, c.table, "embedding", "", "vector.num_clusters", c.clusters, "vector.max_iter", "4", "vector.metric", "cosine")
		t.Run(c.table, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { cold(t, st, c.most) })
		})
	}
}

func cold(t *testing.T, st *mem.Store, most int) {
	d := &distant{Store: st}
	p := mdt.Inside(d)
	v := make([]float64, load(t, st).Dim)
	v[0] = 1
	began := time.Now()
	a, err := search.NewReader(search.Deps{Place: p, Freshness: func(ctx context.Context, tab *table.Table, st *mdt.State, index string) (search.Freshness, error) {
		f, err := coverage.Fresh(ctx, p, tab, st, index)
		return search.Freshness{Fresh: f.Fresh, Reason: f.Reason}, err
	}}).Search(t.Context(), search.Request{Vector: v, K: 10, NProbes: min(32, load(t, st).K), Mode: search.ExactRerank})
	if err != nil || !a.Complete || !a.Fresh {
		t.Fatalf("%+v, %v", a, err)
	}
	rounds := int(time.Since(began) / time.Second)
	t.Logf("%d rounds, requests %v, %d bytes, %+v", rounds, d.requests, d.bytes, a.Stats)
	if rounds > most {
		t.Errorf("%d rounds, want at most %d:\n%s", rounds, most, strings.Join(d.log, "\n"))
	}
	want, err := search.Search(t.Context(), deps(st, fresh), search.Request{Vector: v, K: 10, NProbes: min(32, load(t, st).K), Mode: search.ExactRerank})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "asked at once", a.Results, want.Results)
}
