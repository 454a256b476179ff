// Package lru keeps values in memory up to a number of bytes; those not used for longest go first.
//
// It owns which values stay. It refuses to know what they are: who puts one in says how large it is, and keeps only what never
// changes. It may import the standard library only. Invariant: the sizes of what is kept are never more than the budget together, but for
// one value of NewLast.
package lru

import (
	"container/list"
	"math"
	"sync"
)

// Cache keeps values by key. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	budget, largest int64
	least           int // values that stay whatever they take

	mu    sync.Mutex // guards what follows
	used  list.List  // of *kept[K, V], the last used in front
	at    map[K]*list.Element
	stats Stats
}

// Stats is what a Cache has done.
type Stats struct {
	Kept    int   // values, now
	Bytes   int64 // that they take
	Hits    int64
	Misses  int64
	Evicted int64 // for want of room
}

type kept[K comparable, V any] struct {
	key   K
	value V
	bytes int64
}

// New returns an empty cache with a budget in bytes. A value of more than a quarter of it is not kept: it would push all others out.
func New[K comparable, V any](budget int64) *Cache[K, V] {
	return &Cache[K, V]{budget: budget, largest: budget / 4, at: map[K]*list.Element{}}
}

// NewLast is New for few large values that cost much to make: each is kept, and the last one used stays whatever it takes.
func NewLast[K comparable, V any](budget int64) *Cache[K, V] {
	return &Cache[K, V]{budget: budget, largest: math.MaxInt64, least: 1, at: map[K]*list.Element{}}
}

// Get returns a value that is kept.
func (c *Cache[K, V]) Get(k K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.at[k]
	if e == nil {
		c.stats.Misses++
		return v, false
	}
	c.stats.Hits++
	c.used.MoveToFront(e)
	return e.Value.(*kept[K, V]).value, true
}

// Put keeps a value, unless it is too large or one of its key is kept.
func (c *Cache[K, V]) Put(k K, v V, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[k] != nil || bytes > c.largest {
		return
	}
	c.at[k] = c.used.PushFront(&kept[K, V]{k, v, bytes})
	c.stats.Kept++
	c.stats.Bytes += bytes
	c.shrink()
}

// Resize says how large a value is now, if it is kept.
func (c *Cache[K, V]) Resize(k K, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.at[k]
	if e == nil {
		return
	}
	x := e.Value.(*kept[K, V])
	c.stats.Bytes += bytes - x.bytes
	x.bytes = bytes
	if bytes > c.largest {
		c.remove(e)
		c.stats.Evicted++
	}
	c.shrink()
}

// Drop forgets the values of some keys.
func (c *Cache[K, V]) Drop(of func(k K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, e := range c.at {
		if of(k) {
			c.remove(e)
		}
	}
}

// Stats returns what the cache has done so far.
func (c *Cache[K, V]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

func (c *Cache[K, V]) shrink() {
	for c.stats.Bytes > c.budget && c.stats.Kept > c.least {
		c.remove(c.used.Back())
		c.stats.Evicted++
	}
}

func (c *Cache[K, V]) remove(e *list.Element) {
	x := c.used.Remove(e).(*kept[K, V])
	delete(c.at, x.key)
	c.stats.Kept--
	c.stats.Bytes -= x.bytes
}
