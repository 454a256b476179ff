package indexer_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/internal/vector/kernel"
)

// A flipped bit of a real file ends in an error that holds the frontier, or what is covered are the rows that Spark saw. flips are
// spread over the file of the second commit whose name ends so.
func TestFlippedFiles(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	for _, tc := range []struct {
		table, ending string
		seen          int  // flips that must be found at least
		sums          bool // the file has checksums: no flip of a row is missed
	}{
		{"cow_basic", ".parquet", 25, true},
		{"parquet_logs", ".log.1_", 8, true},
		{"mor_basic", ".log.1_", 20, false}, // Hudi's Avro blocks have none: a flipped vector is another vector
	} {
		t.Run(tc.table, func(t *testing.T) {
			t.Parallel()
			st := store(t, tc.table)
			steps := testkit.Oracle(t, tc.table)
			first, second := steps[0].Instants[0].Requested, steps[1].Instants[0].Requested
			create(t, mdt.Inside(st), generation.CreateRequest{Column: "embedding", AsOf: first}, map[string]string{"vector.num_clusters": "4"})
			path := ""
			for _, p := range st.Paths() {
				if !strings.HasPrefix(p, ".hoodie") && strings.Contains(p, second) && strings.Contains(p, tc.ending) {
					path = p
				}
			}
			content, info, err := st.ReadFile(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			const flips = 60
			held, size := 0, len(content)
			if tc.ending == ".parquet" { // the footer is nearly all bloom filter
				size -= 8 + int(binary.LittleEndian.Uint32(content[size-8:]))
			}
			for i := range flips {
				s, b := st.Clone(), bytes.Clone(content)
				b[i*size/flips] ^= 1 << (i % 8)
				s.Put(path, b, info.ModTime)
				r, err := indexer.Sync(t.Context(), mdt.Inside(s), indexer.SyncOptions{MaxInstants: 1})
				if err != nil {
					if held++; r.Processed != 0 || !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) || !strings.Contains(err.Error(), path[strings.LastIndex(path, "/")+1:]) {
						t.Errorf("flip %d: %d covered, %v", i, r.Processed, err)
					}
					continue
				}
				if tc.sums {
					sameVectors(t, s, steps[1], i)
				}
			}
			if held < tc.seen {
				t.Errorf("only %d of %d flips were seen", held, flips)
			}
			t.Logf("%d of %d flips held the frontier, the others changed no row", held, flips)
		})
	}
}

// sameVectors compares the rows that the table shows at a step with those that Spark saw.
func sameVectors(t *testing.T, st *mem.Store, step testkit.Step, flip int) {
	t.Helper()
	tb, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	files, err := tb.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := live(step, "embedding", kernel.Float, kernel.L2)
	rows := 0
	for s, err := range files.Slices(table.Cut{Upto: step.Instants[len(step.Instants)-1].Completion}) {
		if err != nil {
			t.Fatal(err)
		}
		err := tb.ReadMerged(t.Context(), s, table.Columns{Vectors: []string{"embedding"}}, func(r table.Row) error {
			if rows++; !bytes.Equal(r.Vectors[0], want[r.Key]) {
				t.Errorf("flip %d: vector of %s differs", flip, r.Key)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if rows != len(step.Rows) {
		t.Errorf("flip %d: %d rows, want %d", flip, rows, len(step.Rows))
	}
}
