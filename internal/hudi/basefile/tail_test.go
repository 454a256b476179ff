package basefile_test

import (
	"bytes"
	"errors"
	"testing"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/storage"
)

// Whatever is guessed of the tail, the file is the same; a guess that holds footer and indexes leaves one request each for tail and page.
func TestOpenByItsTail(t *testing.T) {
	t.Parallel()
	b, vec := wide(t, 2000)
	for _, c := range []struct{ tail, opened, read int }{
		{-1, 2, 2}, {0, 2, 2}, {8, 2, 2}, {9, 2, 2}, {1000, 2, 2}, // the footer is longer
		{310_000, 1, 1},    // with the indexes in front of it
		{len(b), 1, 1},     // 64 KiB of the file are kept
		{len(b) + 9, 1, 1}, // more than there is
	} {
		src := &counted{Source: storage.BytesSource(b)}
		f, err := basefile.OpenTail(t.Context(), src, int64(c.tail))
		if err != nil {
			t.Fatalf("%d: %v", c.tail, err)
		}
		if src.requests != c.opened {
			t.Errorf("%d: opened by %d requests, want %d", c.tail, src.requests, c.opened)
		}
		src.requests = 0
		if err := f.ReadAt(t.Context(), []string{"v"}, []int64{4}, func(r basefile.Row) error {
			if !bytes.Equal(r.Values[0], vec[4]) {
				t.Errorf("%d: other vector", c.tail)
			}
			return nil
		}); err != nil || src.requests != c.read {
			t.Errorf("%d: read by %d requests, want %d: %v", c.tail, src.requests, c.read, err)
		}
		if text, _ := f.Footer("x"); len(text) != 300_000 {
			t.Errorf("%d: footer entry of %d bytes", c.tail, len(text))
		}
	}
	for _, cut := range []int{0, 11, 12, 1000, len(b) - 1} {
		if _, err := basefile.OpenTail(t.Context(), storage.BytesSource(b[:cut]), 1<<20); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%d bytes: %v", cut, err)
		}
	}
}
