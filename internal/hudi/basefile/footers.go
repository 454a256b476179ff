package basefile

import (
	"context"
	"fmt"
	"unsafe"

	"tidemark/internal/lru"
	"tidemark/internal/storage"
)

// Footers keeps open files between looks at tables, of any number of files, up to a budget: decoded footers, and the page indexes that
// were read. A file never changes under its name, so what is kept is never wrong. It is safe for concurrent use.
type Footers struct {
	kept *lru.Cache[string, *File]
}

// FooterBytes is a budget for Footers that suits most: one takes a few KB, more where a file has many
// columns or pages, and up to 64 KiB more behind a network.
const FooterBytes = 32 << 20

// NewFooters returns an empty cache with a budget in bytes.
func NewFooters(budget int64) *Footers { return &Footers{lru.New[string, *File](budget)} }

// Stats returns what the cache has done so far.
func (k *Footers) Stats() lru.Stats { return k.kept.Stats() }

// OpenTail is the function OpenTail for a file of this name among all that share k. The file reads from src, and its ReadAt keeps pages in
// p (nil: none).
func (k *Footers) OpenTail(ctx context.Context, src storage.Source, tail int64, name string, p *Pages) (*File, error) {
	key := fmt.Sprintf("%s %d", name, src.Size())
	f, ok := k.kept.Get(key)
	if ok {
		k.kept.Resize(key, f.bytes.Load()) // indexes may have come since
	} else {
		opened, err := OpenTail(ctx, src, tail)
		if err != nil {
			return nil, err
		}
		f = opened.from(nil) // what is kept must not hold on to who read it
		k.kept.Put(key, f, f.bytes.Load())
	}
	f = f.from(src)
	f.pages, f.name = p, name
	return f, nil
}

// from returns the same file, read from another source. Footer and page indexes are shared.
func (f *File) from(src storage.Source) *File {
	out := *f
	out.src = fronted{src, f.front}
	return &out
}

// weigh sets about what the footer takes in memory. Page indexes add themselves.
func (f *File) weigh() {
	n := int64(unsafe.Sizeof(*f)) + int64(len(f.front.b)) + 256
	for k, v := range f.footer {
		n += int64(len(k)+len(v)) + 64
	}
	for name := range f.columns {
		n += int64(2*len(name)) + int64(unsafe.Sizeof(column{})) + 64
	}
	for i := range f.groups {
		n += int64(unsafe.Sizeof(rowGroup{})) + int64(len(f.groups[i].chunks))*int64(unsafe.Sizeof(chunk{}))
	}
	f.bytes.Add(n)
}
