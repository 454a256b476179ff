package timeline

import (
	chain "container/list"
	"sync"
)

// CacheStats counts what a Reader's metadata cache did.
type CacheStats struct {
	// Hits were answered from memory, Misses were read, Evicted were forgotten for lack of room.
	Hits, Misses, Evicted int
	// Bytes is what is held now, by estimate.
	Bytes int64
}

// cacheBytes bounds the metadata that one Reader or Archive keeps, by estimate.
const cacheBytes = 32 << 20

// lru keeps the metadata used last, up to a number of bytes. It is safe for concurrent use.
type lru struct {
	mu    sync.Mutex // guards what follows
	limit int64
	stats CacheStats
	// schema is the table schema seen last: nearly all commits carry the same text, of which one copy is enough.
	schema string
	order  *chain.List // of *held, used last in front
	byKey  map[string]*chain.Element
}

type held struct {
	key  string
	m    content
	cost int64
}

// content is metadata that can be kept.
type content interface{ memory() int64 }

func newLRU(limit int64) *lru {
	return &lru{limit: limit, order: chain.New(), byKey: map[string]*chain.Element{}}
}

func (c *lru) get(key string) content {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil {
		c.stats.Misses++
		return nil
	}
	c.stats.Hits++
	c.order.MoveToFront(e)
	return e.Value.(*held).m
}

// put keeps m, which nobody else has yet, unless it alone is larger than the limit.
func (c *lru) put(key string, m content) {
	h := &held{key: key, m: m, cost: m.memory()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, ok := m.(*CommitMetadata); ok {
		if text := m.Extra["schema"]; text == c.schema && text != "" {
			m.Extra["schema"] = c.schema
			h.cost -= int64(len(text))
		} else {
			c.schema = text
		}
	}
	if c.byKey[key] != nil || h.cost > c.limit {
		return
	}
	c.byKey[key] = c.order.PushFront(h)
	c.stats.Bytes += h.cost
	for c.stats.Bytes > c.limit {
		last := c.order.Back()
		old := c.order.Remove(last).(*held)
		delete(c.byKey, old.key)
		c.stats.Bytes -= old.cost
		c.stats.Evicted++
	}
}

func (c *lru) statistics() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// memory estimates the bytes that the metadata takes.
func (m *CommitMetadata) memory() int64 {
	n := int64(512)
	for k, v := range m.Extra {
		n += int64(len(k)+len(v)) + 64
	}
	for _, s := range m.Stats {
		n += int64(len(s.FileID)+len(s.Path)+len(s.BaseFile)+len(s.PrevBaseFile)) + 256
		for _, l := range s.LogFiles {
			n += int64(len(l)) + 16
		}
		n += int64(len(s.CDC)) * 128
	}
	for _, ids := range m.Replaced {
		n += int64(len(ids)) * 64
	}
	return n
}

// memory estimates the bytes that the metadata takes.
func (m *CleanMetadata) memory() int64 {
	n := int64(512)
	for _, files := range []map[string][]string{m.Deleted, m.Failed} {
		for partition, names := range files {
			n += int64(len(partition)) + 64
			for _, name := range names {
				n += int64(len(name)) + 16
			}
		}
	}
	return n
}
