package indexer_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/sink"
	"tidemark/timeline"
)

func certificate(t *testing.T, p mdt.Place) (*coverage.Certificate, []byte) {
	t.Helper()
	c, err := coverage.Prove(t.Context(), coverage.Deps{Place: p}, "")
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Encode(true)
	if err != nil {
		t.Fatal(err)
	}
	return c, b
}

func check(t *testing.T, p mdt.Place, b []byte) *coverage.CertificateCheck {
	t.Helper()
	r, err := coverage.CheckCertificate(t.Context(), coverage.Deps{Place: p}, b)
	if err != nil {
		t.Fatal(err)
	}
	if r.OK != (len(r.Problems) == 0) {
		t.Fatalf("ok %v with %q", r.OK, r.Problems)
	}
	return r
}

// followed are the recorded tables that an index can follow.
var followed = []string{"cow_basic", "mor_basic", "mor_compaction_clean", "v8", "local_zone", "unindexable", "replace_ops", "cow_clustering",
	"mor_clustering", "merge_event_time", "merge_commit_time", "partition_move", "partition_move_cow", "partial_update", "log_compaction",
	"parquet_logs", "occ", "occ_inflight", "archived", "bucket", "keys_complex", "keys_timestamp", "cdc", "cdc_mor", "pending", "rollback_cow",
	"rollback_restore", "nbcc_commit_time", "nbcc_event_time", "nbcc_overlap_compaction", "sql_created", "keys_unicode", "virtual_keys",
	"cow_pending_clustering", "merge_noop", "javaclient_mor", "evolved"}

// A certificate made at any step of following a table is accepted then and at every later step; what it says is what the
// state says.
func TestProveFixtures(t *testing.T) {
	t.Parallel()
	for _, name := range followed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := place(t, name)
			first := earliestInstant(t, p)
			if name == "evolved" {
				tb, err := table.Open(t.Context(), p.Store)
				if err != nil {
					t.Fatal(err)
				}
				writes := tb.Timeline.Writes()
				first = writes[len(writes)-2].Requested // the vector column came late
			}
			create(t, p, generation.CreateRequest{Column: "embedding", AsOf: first}, map[string]string{"vector.num_clusters": "3"})
			var made [][]byte
			for n := 1; n > 0; {
				c, b := certificate(t, p)
				st, _, err := mdt.ReadState(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				if x := st.Indexes["embedding_idx"]; len(c.Covered) != len(x.Covered) || len(c.Baseline) != len(x.Baseline.Instants) {
					t.Errorf("%d covered and %d baseline commits, the state has %d and %d", len(c.Covered), len(c.Baseline), len(x.Covered), len(x.Baseline.Instants))
				}
				if s := status(t, p); c.Fresh != s.Fresh || (c.Frontier == nil) != (s.Frontier == nil) || c.Frontier != nil && *c.Frontier != *s.Frontier {
					t.Errorf("certificate: fresh %v, frontier %v; status: %v, %v", c.Fresh, c.Frontier, s.Fresh, s.Frontier)
				}
				made = append(made, b)
				for i, b := range made {
					if r := check(t, p, b); !r.OK {
						t.Fatalf("certificate %d of %d: %q", i+1, len(made), r.Problems)
					}
				}
				r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: 3})
				if err != nil {
					t.Fatal(err)
				}
				n = r.Processed
			}
		})
	}
}

// After changing any one byte of a covered commit's metadata, of a file with markers or the frontier, of the state, its
// ledger, the archive or the certificate, it is refused, and the reason names the place.
func TestProveFlips(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	flips := 150
	if os.Getenv("TIDEMARK_TEST_LONG") != "" {
		flips = 1000
	}
	tables := []string{"cow_basic", "mor_basic", "archived"}
	for n, name := range tables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(20261130, uint64(n)))
			start := store(t, name)
			p := mdt.Inside(start)
			create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "2"})
			for n := 1; n > 0; { // several commits, so that the evidence of some is in the ledger
				r, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: 2, Sink: sink.Config{Evidence: 1}})
				if err != nil {
					t.Fatal(err)
				}
				n = r.Processed
			}
			if name == "archived" {
				start = archiveSome(t, start, 2)
				p = mdt.Inside(start)
			}
			c, b := certificate(t, p)
			if !check(t, p, b).OK {
				t.Fatal("the certificate is refused as it is")
			}
			targets := evidenceFiles(t, start, c)
			rows := archivedMetadata(t, start)
			noticed := 0
			for i := range flips / len(tables) {
				st, cert, where := start.Clone(), b, "certificate"
				if n := rng.IntN(len(targets) + 1); n < len(targets) {
					where = targets[n]
					content, info, err := st.ReadFile(t.Context(), where)
					if err != nil {
						t.Fatal(err)
					}
					st.Put(where, flip(rng, content), info.ModTime)
				} else {
					cert = flip(rng, b)
				}
				if r := check(t, mdt.Inside(st), cert); r.OK {
					if strings.Contains(where, "/history/") && slices.EqualFunc(rows, archivedMetadata(t, st), bytes.Equal) {
						continue // a byte of the archive's file that is no one's metadata
					}
					t.Fatalf("flip %d: a changed byte of %s is accepted", i, where)
				}
				noticed++
			}
			if noticed < flips/len(tables)*3/4 {
				t.Errorf("%d flips were noticed: the test shows little", noticed)
			}
		})
	}
}

func flip(rng *rand.Rand, b []byte) []byte {
	b = slices.Clone(b)
	b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255))
	return b
}

// evidenceFiles are the files that a certificate of a table rests on.
func evidenceFiles(t *testing.T, st *mem.Store, c *coverage.Certificate) []string {
	t.Helper()
	p := mdt.Inside(st)
	out := []string{p.StatePath(), p.StatePath()}
	state, _, err := mdt.ReadState(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range state.Live(c.Index) {
		out = append(out, p.File(f.Path))
	}
	if len(state.Ledger) == 0 {
		t.Fatal("nothing is in the ledger")
	}
	for _, l := range state.Ledger {
		out = append(out, p.LedgerPath(l.Path))
	}
	covered := map[string]bool{}
	for _, i := range slices.Concat(c.Baseline, c.Covered) {
		covered[i.Requested+"_"+i.Completed+"."+string(i.Action)] = true
	}
	newest := ""
	for _, f := range st.Paths() {
		if path.Dir(f) == ".hoodie/timeline" && covered[path.Base(f)] {
			out = append(out, f)
		}
		if strings.HasPrefix(f, history) && strings.HasSuffix(f, ".parquet") {
			newest = f // the one of archiveSome, which has covered commits
		}
	}
	if newest != "" {
		version, _, err := st.ReadFile(t.Context(), history+"_version_")
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, newest, newest, history+"_version_", history+"manifest_"+string(version))
	}
	return out
}

// archivedMetadata returns the metadata that the archive has of commits, by requested time.
func archivedMetadata(t *testing.T, st *mem.Store) (out [][]byte) {
	t.Helper()
	tb, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	a := timeline.NewArchive(st, table.HoodieDir, tb.Props)
	for i, err := range a.Instants(t.Context(), "", "") {
		if err != nil {
			return nil
		}
		if m, err := a.Commit(t.Context(), i); err == nil {
			out = append(out, m.Digest[:])
		}
	}
	return out
}

// What the certificate says of an index that was undone, dropped, or wound back is refused; later commits do not matter.
func TestProveRefusals(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (*mem.Store, mdt.Place, []byte) {
		st := store(t, "cow_basic")
		p := mdt.Inside(st)
		create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "2"})
		if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: 3}); err != nil {
			t.Fatal(err)
		}
		old := st.Clone()
		if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{}); err != nil {
			t.Fatal(err)
		}
		_, b := certificate(t, p)
		return old, p, b
	}
	refused := func(t *testing.T, p mdt.Place, b []byte, words string) {
		t.Helper()
		if r := check(t, p, b); r.OK || !strings.Contains(strings.Join(r.Problems, "; "), words) || !strings.HasPrefix(r.Sentence(), "refused: ") {
			t.Errorf("%+v, want a refusal that says %q", r, words)
		}
	}
	t.Run("index of an earlier time", func(t *testing.T) {
		t.Parallel()
		old, _, b := begin(t)
		refused(t, mdt.Inside(old), b, "is no longer called covered")
		refused(t, mdt.Inside(old), b, "the frontier is ")
		refused(t, mdt.Inside(old), b, "the marker of commit ")
	})
	t.Run("undone", func(t *testing.T) {
		t.Parallel()
		_, p, b := begin(t)
		gone := undo(t, p.Store.(*mem.Store), 1)
		refused(t, p, b, "commit "+gone[0])
		if _, err := coverage.Prove(t.Context(), coverage.Deps{Place: p}, ""); err == nil || !strings.Contains(err.Error(), gone[0]) {
			t.Errorf("prove: %v", err)
		}
		reconcile(t, p)
		refused(t, p, b, "on neither timeline")
		if _, after := certificate(t, p); !check(t, p, after).OK {
			t.Error("a certificate after the reconcile is refused")
		}
	})
	t.Run("dropped and created again", func(t *testing.T) {
		t.Parallel()
		_, p, b := begin(t)
		c, err := indexer.OpenCommitter(t.Context(), p, indexer.CommitterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := generation.Drop(t.Context(), c, "embedding_idx"); err != nil {
			t.Fatal(err)
		}
		refused(t, p, b, "not found")
		create(t, p, generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "2"})
		refused(t, p, b, "generation 1")
	})
	t.Run("late commit", func(t *testing.T) {
		t.Parallel()
		_, p, b := begin(t)
		st := p.Store.(*mem.Store)
		tb, err := table.Open(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		w := tb.Timeline.Writes()[2]
		content, _, err := st.ReadFile(t.Context(), ".hoodie/timeline/"+w.File)
		if err != nil {
			t.Fatal(err)
		}
		st.Put(".hoodie/timeline/20200101000000000_"+w.Completed+".commit", content, time.Time{})
		refused(t, p, b, "is not in the certificate")
	})
	t.Run("other table", func(t *testing.T) {
		t.Parallel()
		_, _, b := begin(t)
		other := place(t, "occ")
		create(t, other, generation.CreateRequest{Column: "embedding"}, map[string]string{"vector.num_clusters": "2"})
		refused(t, other, b, `it is about table "cow_basic"`)
		refused(t, place(t, "occ"), b, "not found")
	})
}
