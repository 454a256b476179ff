package basefile_test

import (
	"bytes"
	"testing"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/storage"
)

// A footer that is kept is not read again, nor are its page indexes, which count towards the budget; each user reads by its own source.
func TestFootersAreKept(t *testing.T) {
	t.Parallel()
	b, vec := wide(t, 2000)
	footers := basefile.NewFooters(1 << 22) // the footer has an entry of 300,000 bytes
	var before int64
	for i, want := range []int{4, 1, 1} { // tail, footer, index, page; then the page alone
		src := &counted{Source: storage.BytesSource(b)}
		f, err := footers.OpenTail(t.Context(), src, 0, "f", nil)
		if err != nil {
			t.Fatal(err)
		}
		if s := footers.Stats(); i == 0 {
			before = s.Bytes
		} else if i == 1 && s.Bytes <= before || s.Kept != 1 || s.Hits != int64(i) || s.Misses != 1 {
			t.Errorf("use %d: got %+v, %d bytes without indexes", i, s, before)
		}
		if err := f.ReadAt(t.Context(), []string{"v"}, []int64{4}, func(r basefile.Row) error {
			if !bytes.Equal(r.Values[0], vec[4]) {
				t.Errorf("use %d: other vector", i)
			}
			return nil
		}); err != nil || src.requests != want {
			t.Errorf("use %d: %d requests, want %d: %v", i, src.requests, want, err)
		}
	}
	if before < 300_000 {
		t.Errorf("the footer counts for %d bytes", before)
	}
	for i := range 40 { // far more than the budget holds
		if _, err := footers.OpenTail(t.Context(), storage.BytesSource(b), 0, string(rune('A'+i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	if s := footers.Stats(); s.Bytes > 1<<22 || s.Evicted == 0 {
		t.Errorf("got %+v", s)
	}
	if _, err := footers.OpenTail(t.Context(), storage.BytesSource(b[:1000]), 0, "cut", nil); err == nil || footers.Stats().Misses != 42 {
		t.Errorf("cut: %v, %+v", err, footers.Stats())
	}
}
