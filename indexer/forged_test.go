package indexer_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"tidemark/coverage"
	"tidemark/generation"
	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
)

// A certificate that someone wrote, with the digest that belongs to it, is refused where storage says otherwise.
func TestForgedCertificates(t *testing.T) {
	t.Parallel()
	const pending = "20200101000000000"
	st := store(t, "cow_basic")
	p := mdt.Inside(st)
	create(t, p, generation.CreateRequest{Column: "embedding", AsOf: earliestInstant(t, p)}, map[string]string{"vector.num_clusters": "2"})
	if _, err := indexer.Sync(t.Context(), p, indexer.SyncOptions{MaxInstants: 3}); err != nil {
		t.Fatal(err)
	}
	st.Put(".hoodie/timeline/"+pending+".commit.requested", nil, time.Time{})
	st.Put(".hoodie/timeline/"+pending+".inflight", nil, time.Time{})
	tb, err := table.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	writes := tb.Timeline.Writes()
	first, last := writes[0], writes[len(writes)-1]
	made, b := certificate(t, p)
	if r := check(t, p, b); !r.OK || made.Fresh || len(made.InFlight) != 1 || len(made.Covered) < 2 || len(made.Baseline) == 0 || made.Frontier == nil {
		t.Fatalf("the true certificate %s: %q", b, r.Problems)
	}
	end := made.Covered[len(made.Covered)-1]
	type certificateOf = coverage.Certificate
	for name, tt := range map[string]struct {
		forge func(c *certificateOf)
		says  string
	}{
		"nothing, and fresh": {func(c *certificateOf) {
			c.Fresh, c.Latest, c.Frontier, c.Baseline, c.Covered, c.InFlight = true, nil, nil, []coverage.Proved{}, []coverage.Proved{}, []coverage.Gap{}
		}, "after the newest write"},
		"fresh": {func(c *certificateOf) { c.Fresh = true }, "is not in the certificate"},
		"fresh at its frontier": {func(c *certificateOf) {
			c.Fresh, c.Latest = true, &coverage.Times{Requested: end.Requested, Completed: end.Completed}
		}, "after the newest write that it names"},
		"fresh without a newest": {func(c *certificateOf) { c.Fresh, c.Latest = true, nil }, "names no newest write"},
		"newest before covered": {func(c *certificateOf) {
			c.Latest = &coverage.Times{Requested: first.Requested, Completed: first.Completed}
		}, "after the newest write that it names"},
		"invented newest": {func(c *certificateOf) {
			c.Latest = &coverage.Times{Requested: "20190101000000000", Completed: last.Completed}
		}, "is on neither timeline"},
		"nothing in flight": {func(c *certificateOf) { c.InFlight = []coverage.Gap{} }, "is pending since before"},
		"invented in flight": {func(c *certificateOf) {
			c.InFlight = append(c.InFlight, coverage.Gap{Requested: last.Completed, Action: "commit", Reason: "inflight"})
		}, "neither pending"},
		"completed called in flight": {func(c *certificateOf) {
			c.InFlight = append(c.InFlight, coverage.Gap{Requested: last.Requested, Action: last.Action, Reason: "inflight"})
		}, "neither pending"},
		"other action in flight": {func(c *certificateOf) { c.InFlight[0].Action = "deltacommit" }, "neither pending"},
		"other reason in flight": {func(c *certificateOf) { c.InFlight[0].Reason = "pending" }, "not what prove writes"},
		"in flight twice":        {func(c *certificateOf) { c.InFlight = append(c.InFlight, c.InFlight[0]) }, "more than once"},
		"covered called baseline": {func(c *certificateOf) {
			moved := c.Covered[0]
			moved.Marker, moved.MDTInstant = "", ""
			c.Baseline, c.Covered = append(c.Baseline, moved), c.Covered[1:]
		}, "is not one of the baseline"},
		"baseline with a marker": {func(c *certificateOf) { c.Baseline[0].Marker = c.Covered[0].Marker }, "has a marker"},
		"baseline left out":      {func(c *certificateOf) { c.Baseline, c.Frontier = []coverage.Proved{}, nil }, "baseline is not in the certificate"},
		"covered without marker": {func(c *certificateOf) { c.Covered[0].Marker = "" }, "the marker of commit"},
		"other metadata commit":  {func(c *certificateOf) { c.Covered[0].MDTInstant = "20190101000000000" }, "was written by metadata commit"},
		"other before":           {func(c *certificateOf) { c.Before = last.Requested }, "the baseline holds what is before"},
		"covered twice":          {func(c *certificateOf) { c.Covered = append(c.Covered, c.Covered[0]) }, "more than once"},
		"baseline twice":         {func(c *certificateOf) { c.Baseline = append(c.Baseline, c.Baseline[0]) }, "more than once"},
		"baseline and covered":   {func(c *certificateOf) { c.Covered = append(c.Covered, c.Baseline[0]) }, "more than once"},
		"not ok":                 {func(c *certificateOf) { c.OK = false }, "does not say ok"},
		"of the future":          {func(c *certificateOf) { c.Time = c.Time.Add(24 * time.Hour) }, "yet to come"},
		"invented frontier": {func(c *certificateOf) {
			c.Frontier = &coverage.Times{Requested: "20190101000000000", Completed: "20190101000000001"}
		}, "is on neither timeline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := coverage.DecodeCertificate(b)
			if err != nil {
				t.Fatal(err)
			}
			tt.forge(c)
			c.Digest = ""
			plain, err := c.Encode(false)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(plain)
			c.Digest = hex.EncodeToString(sum[:])
			forged, err := c.Encode(true)
			if err != nil {
				t.Fatal(err)
			}
			if r := check(t, p, forged); r.OK || !strings.Contains(strings.Join(r.Problems, "; "), tt.says) {
				t.Errorf("ok %v, %q, want %q", r.OK, r.Problems, tt.says)
			}
		})
	}
}
