package search

import (
	"tidemark/generation"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/hfile"
	"tidemark/internal/lru"
)

// CacheBytes is the default budget of a Cache.
const CacheBytes = 256 << 20

// Cache keeps what searches read: clusters of indexes, as scans need them, up to a budget; centroids, of all clusters of an index together, and unpacked
// pages of base files, each up to the same budget (but those of the index that was asked last stay whatever they take); blocks of record indexes, up to a quarter of it; footers of base files, up to an eighth. Of each kind, those
// not used for longest go first. Files never change, so what is kept is never wrong. One may serve many tables; it is safe for concurrent use.
type Cache struct {
	clusters  *lru.Cache[cacheKey, *cluster]
	centroids *lru.Cache[*loaded, *generation.Generation]
	pages     *basefile.Pages
	blocks    *hfile.Blocks
	footers   *basefile.Footers
}

type cacheKey struct {
	of *loaded
	id int
}

// NewCache returns an empty cache with a budget in bytes; 0 is CacheBytes.
func NewCache(budget int64) *Cache {
	if budget <= 0 {
		budget = CacheBytes
	}
	return &Cache{clusters: lru.New[cacheKey, *cluster](budget), centroids: lru.NewLast[*loaded, *generation.Generation](budget), pages: basefile.NewPages(budget), blocks: hfile.NewBlocks(budget / 4),
		footers: basefile.NewFooters(budget / 8)}
}

// CacheKinds are the kinds of what a Cache keeps.
var CacheKinds = []string{"clusters", "centroids", "pages", "blocks", "footers"}

// Stats returns what the cache has done so far, by kind.
func (c *Cache) Stats() map[string]lru.Stats {
	return map[string]lru.Stats{"clusters": c.clusters.Stats(), "centroids": c.centroids.Stats(), "pages": c.pages.Stats(), "blocks": c.blocks.Stats(), "footers": c.footers.Stats()}
}

// forget drops what is kept of a view that will not be asked again.
func (c *Cache) forget(of *loaded) {
	c.clusters.Drop(func(k cacheKey) bool { return k.of == of })
	c.centroids.Drop(func(k *loaded) bool { return k == of })
}
