// Package lru keeps values in memory up to a number of bytes; those not used for longest go first.
//
// It owns which values stay. It refuses to know what they are: who puts one in says how large it is, and keeps only what never
// changes. It may import the standard library only. Invariant: the sizes of what is kept are never more than the budget together.
package lru

import (
	"container/list"
	"sync"
)

// Cache keeps values by key. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	budget int64

	mu    sync.Mutex // guards what follows
	used  list.List  // of *kept[K, V], the last used in front
	at    map[K]*list.Element
	bytes int64
}

type kept[K comparable, V any] struct {
	key   K
	value V
	bytes int64
}

// New returns an empty cache with a budget in bytes.
func New[K comparable, V any](budget int64) *Cache[K, V] {
	return &Cache[K, V]{budget: budget, at: map[K]*list.Element{}}
}

// Get returns a value that is kept.
func (c *Cache[K, V]) Get(k K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.at[k]
	if e == nil {
		return v, false
	}
	c.used.MoveToFront(e)
	return e.Value.(*kept[K, V]).value, true
}

// Put keeps a value. One that takes more than a quarter of the budget is not kept: it would push all others out.
func (c *Cache[K, V]) Put(k K, v V, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at[k] != nil || bytes > c.budget/4 {
		return
	}
	c.at[k] = c.used.PushFront(&kept[K, V]{k, v, bytes})
	for c.bytes += bytes; c.bytes > c.budget; {
		last := c.used.Back()
		x := c.used.Remove(last).(*kept[K, V])
		delete(c.at, x.key)
		c.bytes -= x.bytes
	}
}

// Bytes returns what the values take that are kept.
func (c *Cache[K, V]) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
