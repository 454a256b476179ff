package mdt

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Location is where the record index says a row lives.
type Location struct {
	Partition string // "" for a table without partitions
	FileID    string
	// Millis is the base or log instant as epoch milliseconds, in the zone of the writer that made the entry.
	Millis int64
	// Instant is Millis as a text of the table's time zone, "" if that zone's offset cannot be derived. With a zone that
	// has summer time it may be off by an hour.
	Instant string
	// Position is the row's ordinal in the base file, -1 if the entry has none (no released writer stores one).
	Position int64
}

// LookupRecords returns where the record index has the given record keys; a key that is absent or deleted gives no entry. data is
// the data table's active timeline. Only the blocks that can hold a key are read, newest file first. Without a record index it
// is storage.ErrNotFound, with a record index per data partition storage.ErrUnsupported.
func (m *MDT) LookupRecords(ctx context.Context, data *timeline.Timeline, keys []string) (map[string]Location, error) {
	return m.LookupRecordsWithout(ctx, data, nil, keys)
}

// LookupRecordsWithout is LookupRecords as of the time before some completed data instants: what they wrote into the record index is left
// out, by their requested times. If that cannot be told apart any more, because a compaction of the metadata table may have merged
// it into a base file, it is storage.ErrStale.
func (m *MDT) LookupRecordsWithout(ctx context.Context, data *timeline.Timeline, out map[string]bool, keys []string) (map[string]Location, error) {
	found := make(map[string]Location, len(keys))
	err := m.eachRecord(ctx, data, out, keys, func(key string, at Location) { found[key] = at })
	if err != nil {
		return nil, err
	}
	return found, nil
}

// EachRecord is LookupRecords that calls fn for each key that is found, in no order and never at once; for a key that is given twice it may be
// called twice.
func (m *MDT) EachRecord(ctx context.Context, data *timeline.Timeline, keys []string, fn func(key string, at Location)) error {
	return m.eachRecord(ctx, data, nil, keys, fn)
}

func (m *MDT) eachRecord(ctx context.Context, data *timeline.Timeline, out map[string]bool, keys []string, fn func(key string, at Location)) error {
	if m.noRecords != nil {
		return m.noRecords
	}
	p, err := m.partition(ctx, recordIndex)
	if err != nil {
		return err
	}
	offset, known := m.offset(data)
	byGroup := make([][]string, len(p.groups))
	for _, k := range keys {
		g := recordGroup(k, len(p.groups))
		byGroup[g] = append(byGroup[g], k)
	}
	var mu sync.Mutex // guards the calls of fn
	var calls []func() error
	for i, want := range byGroup {
		if len(want) == 0 {
			continue
		}
		calls = append(calls, func() error {
			layers, err := m.recordLayers(ctx, data, out, p, i)
			if err != nil {
				return err
			}
			d := &locations{offset: offset, known: known}
			return newest(ctx, layers, want, func(key string, l layer, value []byte) error {
				loc, err := d.decode(l, value)
				if err != nil {
					return fmt.Errorf("record %q: %w", key, err)
				}
				mu.Lock()
				defer mu.Unlock()
				fn(key, loc)
				return nil
			})
		})
	}
	return storage.Together(m.Store, calls...)
}

// keptLayers are the layers of the record index's groups as one timeline of the data table shows them.
type keptLayers struct {
	data   *timeline.Timeline
	layers map[int][]layer // by group
	bytes  int64           // of those of logs, up to holdLayers
}

// recordLayers returns the layers of a group of the record index, without those of the data instants in out. Those of the newest look are
// kept as long as the files that they are made of, as far as there is room.
func (m *MDT) recordLayers(ctx context.Context, data *timeline.Timeline, out map[string]bool, p *partition, group int) ([]layer, error) {
	m.mu.Lock()
	dropped := m.dropped
	var layers []layer
	if out == nil && m.records.data == data {
		layers = m.records.layers[group]
	}
	m.mu.Unlock()
	if layers != nil {
		return layers, nil
	}
	valid := m.ValidInstants(data)
	keep := func(instant string) bool {
		if out == nil {
			return valid(instant)
		}
		// An instant that the data table does not show may yet show: a commit that is seen late.
		_, shown := data.CompletionOf(instant)
		return valid(instant) && !out[instant] && (shown || strings.HasPrefix(instant, initPrefix) || instant < data.Earliest())
	}
	layers, err := m.layers(ctx, p.groups[group], keep)
	if err != nil {
		return nil, err
	}
	if err := m.without(data, out, layers); err != nil {
		return nil, err
	}
	for i := range layers {
		if layers[i].file != nil {
			_ = layers[i].setLocation() // an error comes out where an entry is read
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if out == nil && m.dropped == dropped {
		if m.records.data != data {
			m.records = keptLayers{data: data, layers: map[int][]layer{}}
		}
		m.records.keep(group, layers)
	}
	return layers, nil
}

func (k *keptLayers) keep(group int, layers []layer) {
	var size int64
	for _, l := range layers {
		size += l.bytes
	}
	if k.layers[group] == nil && size <= holdLayers-k.bytes {
		k.layers[group] = layers
		k.bytes += size
	}
}

// without refuses layers that may hold what data instants wrote which are to be left out. A deltacommit of the metadata table has the
// requested time of its data instant. A base file, or a log compaction, holds only what was requested before it; the first base file of a
// partition, whose time says nothing, holds what was there when it completed.
func (m *MDT) without(data *timeline.Timeline, out map[string]bool, layers []layer) error {
	first := ""
	for requested := range out {
		if first == "" || requested < first {
			first = requested
		}
	}
	for _, l := range layers {
		if first == "" {
			break
		}
		at := l.instant
		if strings.HasPrefix(at, initPrefix) {
			if at, _ = m.Timeline.CompletionOf(l.instant); at == "" {
				at = first // it is not known when it was made
			}
		}
		if _, own := data.CompletionOf(l.instant); at < first || own && !l.base {
			continue
		}
		return located("read metadata file", l.path, fmt.Errorf("it may hold what instant %s wrote: %w", first, storage.ErrStale))
	}
	return nil
}

// newest looks keys up in layers from the newest on and calls fn with each key's newest value; deleted keys give no call.
func newest(ctx context.Context, layers []layer, keys []string, fn func(key string, l layer, value []byte) error) error {
	left, stored, done := slices.Clone(keys), asBytes(keys), make([]bool, len(keys))
	for i := len(layers) - 1; i >= 0 && len(left) > 0; i-- {
		l := layers[i]
		if l.file == nil {
			for j, k := range left {
				_, done[j] = l.deleted[k]
			}
		} else {
			err := l.file.Lookup(ctx, stored, func(j int, value []byte) error {
				if done[j] {
					return fmt.Errorf("key %q occurs twice: %w", left[j], storage.ErrCorrupt)
				}
				done[j] = true
				return fn(left[j], l, value)
			})
			if err != nil {
				return located("read metadata file", l.path, err)
			}
		}
		n := 0
		for j := range left {
			if !done[j] {
				left[n], stored[n] = left[j], stored[j]
				n++
			}
		}
		left, stored = left[:n], stored[:n]
		clear(done)
	}
	return nil
}

// asBytes copies keys, which lie behind one another.
func asBytes(keys []string) [][]byte {
	size := 0
	for _, k := range keys {
		size += len(k)
	}
	all, out := make([]byte, 0, size), make([][]byte, len(keys))
	for i, k := range keys {
		from := len(all)
		all = append(all, k...)
		out[i] = all[from:len(all):len(all)]
	}
	return out
}

// recordGroup is Hudi's placement of a key among n file groups: Java's string hash over UTF-16 units, |hash| mod n.
func recordGroup(key string, n int) int {
	var h int32
	for i := range len(key) {
		if key[i] >= utf8.RuneSelf {
			h = 0
			for _, u := range utf16.Encode([]rune(key)) {
				h = 31*h + int32(u)
			}
			break
		}
		h = 31*h + int32(key[i])
	}
	if h < 0 {
		h = -h // stays negative for -2^31, as Java's Math.abs does
	}
	g := h % int32(n)
	if g < 0 {
		g = -g
	}
	return int(g)
}
