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
	if _, ok := c.Get(0); !ok || c.Bytes() != 100 {
		t.Fatal("the budget is not used", c.Bytes())
	}
	c.Put(5, "y", 25)
	for k, want := range map[int]bool{0: true, 1: false, 2: false, 3: true, 4: true, 5: true} {
		if _, ok := c.Get(k); ok != want {
			t.Errorf("%d is kept: %v", k, ok)
		}
	}
	if c.Bytes() != 85 {
		t.Error(c.Bytes())
	}
	c.Put(6, "too large", 26)
	if _, ok := c.Get(6); ok {
		t.Error("a value above a quarter of the budget is kept")
	}
	c.Put(5, "again", 25)
	if v, _ := c.Get(5); v != "y" || c.Bytes() != 85 {
		t.Error(v, c.Bytes())
	}
}
