package simulation

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"tidemark/coverage"
	"tidemark/delta"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/hudimodel"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
	"tidemark/sink"
)

const indexName = hudimodel.Vector + "_idx"

// built are the files of an index of each shape of table, which is the same whatever the seed.
var built sync.Map // hudimodel.Config → map[string][]byte

// index puts the index of a table into the store; the first time it is built.
func (s *sim) index(cfg hudimodel.Config) {
	ctx := s.t.Context()
	if files, ok := built.Load(cfg); ok {
		for _, p := range slices.Sorted(maps.Keys(files.(map[string][]byte))) {
			s.store.Put(p, files.(map[string][]byte)[p], s.w.Now())
		}
		return
	}
	before := s.store.Paths()
	s.create()
	files := map[string][]byte{}
	for _, p := range s.store.Paths() {
		if b, _, err := s.store.ReadFile(ctx, p); err == nil && !slices.Contains(before, p) {
			files[p] = b
		}
	}
	if s.fault == "" {
		built.Store(cfg, files)
	}
}

// create builds the index.
func (s *sim) create() {
	ctx := s.t.Context()
	place := mdt.Inside(s.store)
	tb, err := table.Open(ctx, s.store)
	if err == nil {
		var c indexer.Committer
		if c, err = indexer.OpenCommitter(ctx, place, indexer.CommitterOptions{Sink: sink.Config{Create: true, Host: "first", Owner: "first"}}); err == nil {
			req := generation.CreateRequest{Column: hudimodel.Vector, Place: place, Workers: 1}
			if req.Options, err = generation.ParseOptions(map[string]string{"vector.metric": "l2", "vector.num_clusters": "2", "vector.rabitq.bits": "2"}); err == nil {
				_, err = generation.Create(ctx, tb, c, req)
			}
		}
	}
	if err != nil {
		s.fail("create index: %v", err)
	}
}

// truth is what the table shows now, by instants.
func (s *sim) truth() (effective map[string]*hudimodel.Txn, latest string) {
	effective = map[string]*hudimodel.Txn{}
	for _, t := range s.w.Completed() {
		if s.w.Effective(t) {
			effective[t.Requested] = t
			latest = max(latest, t.Completed)
		}
	}
	return effective, latest
}

// check sees that what must hold does, if anything that matters has changed since it was checked last.
func (s *sim) check() {
	if v := s.store.Version(); v == s.seen {
		return
	} else {
		s.seen = v
	}
	ctx := s.t.Context()
	place := mdt.Inside(s.store)
	st, _, err := mdt.ReadState(ctx, place)
	if err != nil {
		s.fail("the state object cannot be read: %v", err)
		return
	}
	x := st.Indexes[indexName]
	effective, _ := s.truth()
	claimed, undone := claims(x, effective)

	// A frontier never passes a commit that is not in the index.
	for _, t := range effective {
		if t.Completed <= x.Frontier.Completed && !claimed[t.Requested] && !late(x, t) {
			s.fail("frontier %s, but %s, completed %s, is not in the index", x.Frontier.Completed, t.Requested, t.Completed)
		}
	}
	// What is called fresh is right.
	if tb, err := table.Open(ctx, s.store); err == nil {
		v, err := coverage.Fresh(ctx, place, tb, st, indexName)
		if err == nil && v.Fresh {
			s.stats.Fresh++
			if undone != "" || len(claimed) != len(effective) {
				s.fail("called fresh, but the index holds %s and the table %s (undone %q)", keys(claimed), keys(effective), undone)
			}
		}
	}
	if st.Revision == s.state || undone != "" {
		return
	}
	s.state = st.Revision
	for requested := range s.before {
		if effective[requested] != nil && !claimed[requested] {
			s.fail("%s was in the index and is not any more", requested)
		}
	}
	s.before = claimed
	s.postings(ctx, st, x, claimed)
}

// late says whether an instant was seen after the frontier had passed it: a table service, whose plan held nothing.
func late(x *mdt.Index, t *hudimodel.Txn) bool {
	return (t.Pending == "compaction" || t.Pending == "logcompaction" || t.Pending == "clustering") && t.Requested < x.Frontier.Completed
}

// claims are the effective instants that an index says it holds, and one that it holds although it is undone.
func claims(x *mdt.Index, effective map[string]*hudimodel.Txn) (claimed map[string]bool, undone string) {
	claimed = map[string]bool{}
	for _, m := range []map[string]string{x.Baseline.Instants, x.Covered} {
		for requested, completed := range m {
			if t := effective[requested]; t != nil && t.Completed == completed {
				claimed[requested] = true
			} else {
				undone = requested
			}
		}
	}
	for requested, t := range effective {
		// What is archived is forgotten by the sets, and held below the frontier or the baseline's time.
		if !claimed[requested] && archivedTxn(t) && (t.Completed <= x.Frontier.Completed || t.Completed < x.Baseline.Before) && !late(x, t) {
			claimed[requested] = true
		}
	}
	return claimed, undone
}

func archivedTxn(t *hudimodel.Txn) bool { return t.Archived() }

func keys[V any](m map[string]V) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, strings.TrimPrefix(k, "20260101"))
	}
	return fmt.Sprint(out)
}

// postings compares the live postings with the rows of what the index claims.
func (s *sim) postings(ctx context.Context, st *mdt.State, x *mdt.Index, claimed map[string]bool) {
	s.stats.Checks++
	view, err := mdt.OpenView(ctx, mdt.Inside(s.store), st, indexName)
	if err != nil {
		s.fail("open index: %v", err)
		return
	}
	g, err := generation.Load(ctx, view, x)
	if err != nil {
		s.fail("load index: %v", err)
		return
	}
	if f := g.Manifest.VerifiedFrontier; f == nil && x.Frontier.Completed != "" || f != nil && *f != x.Frontier.Completed {
		s.fail("the manifest's frontier is not the state's, %s", x.Frontier.Completed)
	}
	s.markers(ctx, view, g.Number, x)
	rows := s.w.ByKey(s.w.All(func(t *hudimodel.Txn) bool { return claimed[t.Requested] }))
	got := map[string]bool{}
	err = g.Postings(ctx, view, func(p generation.Posting) error {
		if got[p.Key] {
			s.fail("key %q has two postings", p.Key)
		}
		got[p.Key] = true
		row, ok := rows[p.Key]
		if !ok || row.Vec == nil {
			if !degraded(st, p) {
				s.fail("posting of %q, which no claimed row has (claimed %s)", p.Key, keys(claimed))
			}
			return nil
		}
		v := make([]float32, g.Dim)
		kernel.Narrow(v, row.Vec, kernel.Float, g.Metric)
		code := g.Encode(v, p.Cluster)
		if g.Cluster(v) != p.Cluster || !bytes.Equal(rabitq.DeltaBinary(nil, code), p.Binary) || code.F.ResidualNorm != p.Factors.ResidualNorm {
			if !degraded(st, p) {
				s.fail("posting of %q is of another vector than the claimed row (claimed %s)", p.Key, keys(claimed))
			}
		}
		return nil
	})
	if err != nil {
		s.fail("read postings: %v", err)
	}
	for key, row := range rows {
		if row.Vec != nil && !got[key] {
			s.fail("no posting of %q, which %s/%s has (claimed %s)", key, row.Partition, row.FileID, keys(claimed))
		}
	}
}

// markers sees that every covered instant has its marker, by completion time.
func (s *sim) markers(ctx context.Context, view *mdt.View, generation uint32, x *mdt.Index) {
	var wanted [][]byte
	for _, completed := range x.Covered {
		wanted = append(wanted, delta.MarkerKey(generation, completed))
	}
	found, err := view.Get(ctx, wanted)
	if err != nil {
		s.fail("read markers: %v", err)
		return
	}
	for requested, completed := range x.Covered {
		e, ok := found[string(delta.MarkerKey(generation, completed))]
		if !ok {
			s.fail("%s is covered and has no marker at %s", requested, completed)
			continue
		}
		r, err := delta.Decode(e.Schema, e.Value)
		m, is := r.(*delta.SourceInstantMarker)
		if err != nil || !is || !slices.Contains(strings.Split(m.DataInstant, ","), requested) {
			s.fail("the marker at %s does not certify %s: %+v %v", completed, requested, r, err)
		}
	}
}

// degraded says whether a posting lies in a file group whose dead rows are not known.
func degraded(st *mdt.State, p generation.Posting) bool {
	return slices.ContainsFunc(st.Degraded, func(d mdt.DegradedGroup) bool {
		return d.Index == indexName && d.Partition == p.Locator.Partition && d.FileID == p.Locator.FileID
	})
}

// buildOther builds a second index.
func buildOther(ctx context.Context, place mdt.Place, cfg sink.Config) error {
	tb, err := table.Open(ctx, place.Store)
	if err != nil {
		return err
	}
	c, err := indexer.OpenCommitter(ctx, place, indexer.CommitterOptions{Sink: cfg})
	if err != nil {
		return err
	}
	req := generation.CreateRequest{Column: hudimodel.Vector, Name: "other", Place: place, Workers: 1}
	if req.Options, err = generation.ParseOptions(map[string]string{"vector.metric": "l2", "vector.num_clusters": "1", "vector.rabitq.bits": "1"}); err != nil {
		return err
	}
	_, err = generation.Create(ctx, tb, c, req)
	return err
}

// drop drops an index.
func (s *sim) drop(name string) {
	sk, err := sink.Open(s.t.Context(), mdt.Inside(s.store), sink.Config{Host: "last", Owner: "last"})
	if err == nil {
		err = sk.Drop(s.t.Context(), name)
	}
	if err != nil {
		s.fail("drop index %s: %v", name, err)
	}
}
