package search

import (
	"container/list"
	"sync"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/hfile"
)

// CacheBytes is the default budget of a Cache.
const CacheBytes = 256 << 20

// Cache keeps clusters of indexes in memory, as scans need them, up to a budget; those not used for longest go first. Beside them it
// keeps unpacked pages of base files, up to the same budget, and blocks of record indexes, up to a quarter of it. Files
// never change, so what is kept is never wrong. One may serve many tables; it is safe for concurrent use.
type Cache struct {
	budget int64
	pages  *basefile.Pages
	blocks *hfile.Blocks

	mu    sync.Mutex // guards what follows
	used  list.List  // of *cached, the last used in front
	at    map[cacheKey]*list.Element
	stats CacheStats
}

// CacheStats is what a Cache has done.
type CacheStats struct {
	Clusters int   // kept now
	Bytes    int64 // that they take
	Hits     int64
	Misses   int64
	Evicted  int64 // for want of room
}

type cacheKey struct {
	of *loaded
	id int
}

type cached struct {
	key cacheKey
	c   *cluster
}

// NewCache returns an empty cache with a budget in bytes; 0 is CacheBytes.
func NewCache(budget int64) *Cache {
	if budget <= 0 {
		budget = CacheBytes
	}
	return &Cache{budget: budget, pages: basefile.NewPages(budget), blocks: hfile.NewBlocks(budget / 4), at: map[cacheKey]*list.Element{}}
}

// Stats returns what the cache has done so far.
func (c *Cache) Stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

func (c *Cache) get(k cacheKey) *cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.at[k]
	if e == nil {
		c.stats.Misses++
		return nil
	}
	c.stats.Hits++
	c.used.MoveToFront(e)
	return e.Value.(*cached).c
}

// put keeps a cluster. One that takes more than a quarter of the budget is not kept: it would push all others out.
func (c *Cache) put(k cacheKey, x *cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[k] != nil || x.bytes > c.budget/4 {
		return
	}
	c.at[k] = c.used.PushFront(&cached{k, x})
	c.stats.Clusters++
	c.stats.Bytes += x.bytes
	for c.stats.Bytes > c.budget {
		c.remove(c.used.Back())
		c.stats.Evicted++
	}
}

// forget drops what is kept of a view that will not be asked again.
func (c *Cache) forget(of *loaded) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.used.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*cached).key.of == of {
			c.remove(e)
		}
		e = next
	}
}

func (c *Cache) remove(e *list.Element) {
	x := c.used.Remove(e).(*cached)
	delete(c.at, x.key)
	c.stats.Clusters--
	c.stats.Bytes -= x.c.bytes
}
