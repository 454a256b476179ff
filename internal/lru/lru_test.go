package lru_test

import (
	"testing"

	"tidemark/internal/lru"
)

func TestOldestGoes(t *testing.T) {
	t.Parallel()
	c := lru.New[int, string](100)
	for i := range 5 {
		c.Put(i, "x", 20)
	}
	if _, ok := c.Get(0); !ok || c.Stats().Bytes != 100 {
		t.Fatal("the budget is not used", c.Stats())
	}
	c.Put(5, "y", 25)
	for k, want := range map[int]bool{0: true, 1: false, 2: false, 3: true, 4: true, 5: true} {
		if _, ok := c.Get(k); ok != want {
			t.Errorf("%d is kept: %v", k, ok)
		}
	}
	if c.Stats().Bytes != 85 {
		t.Error(c.Stats())
	}
	c.Put(6, "too large", 26)
	if _, ok := c.Get(6); ok {
		t.Error("a value above a quarter of the budget is kept")
	}
	c.Put(5, "again", 25)
	if v, _ := c.Get(5); v != "y" || c.Stats().Bytes != 85 {
		t.Error(v, c.Stats())
	}
	if got, want := c.Stats(), (lru.Stats{Kept: 4, Bytes: 85, Hits: 6, Misses: 3, Evicted: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// The value used last stays, whatever it takes.
func TestLastStays(t *testing.T) {
	t.Parallel()
	c := lru.NewLast[int, string](100)
	c.Put(1, "x", 60)
	c.Put(2, "x", 40)
	c.Put(3, "x", 500)
	if got, want := c.Stats(), (lru.Stats{Kept: 1, Bytes: 500, Evicted: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	c.Put(4, "x", 40)
	if _, ok := c.Get(4); !ok || c.Stats().Bytes != 40 {
		t.Error("a large value stays beside a later one", c.Stats())
	}
}

// A value that grows pushes others out, and goes itself once it is too large to be kept.
func TestResizeAndDrop(t *testing.T) {
	t.Parallel()
	c := lru.New[int, string](100)
	for i := range 5 {
		c.Put(i, "x", 20)
	}
	c.Resize(4, 25)
	c.Resize(9, 25) // is not there
	if got, want := c.Stats(), (lru.Stats{Kept: 4, Bytes: 85, Evicted: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	c.Resize(4, 26)
	if _, ok := c.Get(4); ok || c.Stats().Bytes != 60 {
		t.Error("a value above a quarter of the budget is kept", c.Stats())
	}
	c.Drop(func(k int) bool { return k != 2 })
	if got, want := c.Stats(), (lru.Stats{Kept: 1, Bytes: 20, Misses: 1, Evicted: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
