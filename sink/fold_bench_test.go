package sink

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/spill"
	"tidemark/internal/storage"
	"tidemark/internal/storage/file"
	"tidemark/timeline"
)

// onDisk is a recorded table on the local disk.
func onDisk(b *testing.B, name string) storage.Store {
	b.Helper()
	st, err := file.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	from := table(b, name)
	for _, f := range from.Paths() {
		content, _, err := from.ReadFile(b.Context(), f)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := st.Create(b.Context(), f, content); err != nil {
			b.Fatal(err)
		}
	}
	return st
}

// tally counts calls of a store, and bytes.
type tally struct {
	storage.Store
	calls         map[string]int
	read, written int64
}

func (c *tally) add(op string, read, written int64) {
	c.calls[op]++
	c.read, c.written = c.read+read, c.written+written
}

func (c *tally) ReadFile(ctx context.Context, p string) ([]byte, storage.Info, error) {
	b, i, err := c.Store.ReadFile(ctx, p)
	c.add("read", int64(len(b)), 0)
	return b, i, err
}

func (c *tally) ReadRange(ctx context.Context, p string, off, n int64) ([]byte, error) {
	b, err := c.Store.ReadRange(ctx, p, off, n)
	c.add("read", int64(len(b)), 0)
	return b, err
}

func (c *tally) List(ctx context.Context, p string) ([]storage.Info, error) {
	c.add("list", 0, 0)
	return c.Store.List(ctx, p)
}

func (c *tally) Stat(ctx context.Context, p string) (storage.Info, error) {
	c.add("stat", 0, 0)
	return c.Store.Stat(ctx, p)
}

func (c *tally) Create(ctx context.Context, p string, b []byte) (storage.Info, error) {
	c.add("create", 0, int64(len(b)))
	return c.Store.Create(ctx, p, b)
}

func (c *tally) CreateFrom(ctx context.Context, p string, size int64, open storage.Open) (storage.Info, error) {
	c.add("create", 0, size)
	return c.Store.CreateFrom(ctx, p, size, open)
}

func (c *tally) Replace(ctx context.Context, p string, b []byte, tag string) (storage.Info, error) {
	c.add("replace", 0, int64(len(b)))
	return c.Store.Replace(ctx, p, b, tag)
}

func (c *tally) report(b *testing.B, per int) {
	for _, op := range []string{"list", "stat", "read", "create", "replace"} {
		b.ReportMetric(float64(c.calls[op])/float64(per), op+"/op")
	}
	b.ReportMetric(float64(c.read)/float64(per)/1024, "KiB-read/op")
	b.ReportMetric(float64(c.written)/float64(per)/1024, "KiB-written/op")
}

// committed makes a batch visible, waiting for an id if it must: the table was copied just now.
func committed(b *testing.B, s *Sink, batch Batch) {
	b.Helper()
	_, err := s.Commit(b.Context(), batch)
	for wait := (*WaitError)(nil); errors.As(err, &wait); _, err = s.Commit(b.Context(), batch) {
		<-time.After(time.Second)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCommitOnDisk makes commits of one log file in one file group, each after a fold, and reports requests and bytes of one.
func BenchmarkCommitOnDisk(b *testing.B) {
	for _, records := range []int{1, 1_000, 100_000} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			count := &tally{Store: onDisk(b, "cow_basic")}
			s, err := Open(b.Context(), mdt.Inside(count), Config{Schema: testSchema, Create: true, Renew: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			count.calls = map[string]int{}
			if err := s.Acquire(b.Context()); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Release(context.Background()) }()
			committed(b, s, bootstrap(idx))
			committed(b, s, activate(idx))
			for n := range 6 {
				committed(b, s, cover(n, 1))
			}
			n := 6
			count.calls, count.read, count.written = map[string]int{}, 0, 0
			for b.Loop() {
				committed(b, s, cover(n, records))
				n++
			}
			count.report(b, n-6)
		})
	}
}

// rusage is the processor time that the process has taken.
func rusage(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// posting is a payload of the size of a posting, that does not compress.
func posting(r *rand.Rand, size int) []byte {
	p := make([]byte, 0, size+8)
	for len(p) < size {
		p = binary.LittleEndian.AppendUint64(p, r.Uint64())
	}
	return p[:size]
}

// BenchmarkFold folds a file group of 64 MiB of packed blocks and the logs of ten commits, on the local disk, and reports its speed as a share of
// that of a plain copy of the same bytes: each input read and summed up, kept in a temporary file, written to the store and read
// back with its sum compared, which is what a commit does with any file. changed: postings in logs, of 460,000 in blocks; scattered over all keys,
// or behind the blocks as the index has them. cpu: the same by processor time.
func BenchmarkFold(b *testing.B) {
	const blocks, blockSize, delta = 1000, 64 << 10, 134
	for _, tt := range []struct {
		name      string
		deltas    int // of each of ten commits
		scattered bool
	}{
		{"no logs", 0, false}, {"1 percent", 460, false}, {"10 percent", 4600, false}, {"10 percent scattered", 4600, true}, {"as many again", 46_000, false},
	} {
		b.Run(tt.name, func(b *testing.B) {
			st := onDisk(b, "cow_basic")
			s, err := Open(b.Context(), mdt.Inside(st), Config{Schema: testSchema, Create: true, Renew: time.Hour, Retention: time.Nanosecond, TempDir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Acquire(b.Context()); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Release(context.Background()) }()
			boot := bootstrap(idx)
			boot.Build = func(string, string) ([]FileRecords, error) {
				r := rand.New(rand.NewPCG(1, 1))
				f := FileRecords{Index: idx, Group: 0, Base: true}
				for i := range blocks {
					f.Records = append(f.Records, record(fmt.Sprintf("%04d", i), string(posting(r, blockSize))))
				}
				return []FileRecords{f, {Index: idx, Group: 1, Base: true}}, nil
			}
			committed(b, s, boot)
			committed(b, s, activate(idx))
			round := 0
			logs := func(seed uint64) {
				round++
				for c := range 10 {
					r := rand.New(rand.NewPCG(seed, uint64(c)))
					requested := fmt.Sprintf("2027%02d%02d000000000", round/28+1, round%28+1)
					batch := follow(idx, timeline.Instant{Requested: requested, Completed: requested, Action: timeline.DeltaCommit})
					batch.NewestData = timeline.Instant{}
					batch.Build = func(string, string) ([]FileRecords, error) {
						f := FileRecords{Index: idx, Group: 0}
						for range max(tt.deltas, 1) {
							key := fmt.Sprintf("deltas-%08x", r.Uint32()%1_000_000)
							if tt.scattered {
								key = fmt.Sprintf("%04d-%08x", r.IntN(blocks), r.Uint32()%1_000_000)
							}
							f.Records = append(f.Records, record(key, string(posting(r, delta))))
						}
						slices.SortFunc(f.Records, func(a, b Record) int { return strings.Compare(string(a.Key), string(b.Key)) })
						f.Records = slices.CompactFunc(f.Records, func(a, b Record) bool { return string(a.Key) == string(b.Key) })
						return []FileRecords{f}, nil
					}
					committed(b, s, batch)
					if tt.deltas == 0 {
						break
					}
				}
			}
			var fold, copied, foldCPU, copyCPU time.Duration
			var last Folded
			for b.Loop() {
				logs(uint64(round))
				began, cpu := time.Now(), rusage(b)
				for _, f := range s.State().Live(idx) {
					if f.Group == 0 {
						plainCopy(b, s, f, round)
					}
				}
				copied, copyCPU = copied+time.Since(began), copyCPU+rusage(b)-cpu
				began, cpu = time.Now(), rusage(b)
				var err error
				for last, err = s.Fold(b.Context(), Fold{}); err != nil; last, err = s.Fold(b.Context(), Fold{}) {
					if wait := (*WaitError)(nil); !errors.As(err, &wait) {
						b.Fatal(err)
					}
					<-time.After(time.Second)
					began, cpu = time.Now(), rusage(b)
				}
				fold, foldCPU = fold+time.Since(began), foldCPU+rusage(b)-cpu
			}
			b.ReportMetric(float64(copied)/float64(fold), "of-copy-speed")
			b.ReportMetric(float64(copyCPU)/float64(foldCPU), "of-copy-cpu")
			b.ReportMetric(float64(last.Blocks.Copied)/float64(last.Blocks.Copied+last.Blocks.Unpacked), "blocks-copied")
			b.ReportMetric(float64(last.Bytes)/(1<<20)/fold.Seconds()*float64(b.N), "MiB/s")
		})
	}
}

// plainCopy does with a file of ours what a commit does with any: read and checked, kept, written, read back and checked.
func plainCopy(b *testing.B, s *Sink, f mdt.DataFile, n int) {
	b.Helper()
	space := spill.NewSpace(s.cfg.TempDir, s.cfg.Memory)
	defer func() { _ = space.Close() }()
	buffer, sum := space.Buffer(), sha256.New()
	for off := int64(0); off < f.Size; off += 1 << 20 {
		got, err := s.place.Store.ReadRange(b.Context(), s.place.File(f.Path), off, min(1<<20, f.Size-off))
		if err != nil {
			b.Fatal(err)
		}
		sum.Write(got)
		if _, err := buffer.Write(got); err != nil {
			b.Fatal(err)
		}
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		b.Fatal("other bytes")
	}
	copied := []staged{{DataFile: f, pieces: []piece{{buffer: buffer}}}}
	copied[0].Path = fmt.Sprintf("vector_index_copy/%d-%s", n, strings.ReplaceAll(f.Path, "/", "-"))
	if err := errors.Join(s.createFiles(b.Context(), copied), s.compareFiles(b.Context(), copied)); err != nil {
		b.Fatal(err)
	}
	if err := s.guard.Delete(b.Context(), s.place.File(copied[0].Path)); err != nil {
		b.Fatal(err)
	}
}
