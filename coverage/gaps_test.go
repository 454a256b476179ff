package coverage_test

import (
	"encoding/json"
	"strings"
	"testing"

	"tidemark/coverage"
)

// A gap says who wrote the commit, as far as its metadata tells.
func TestGapNamesWriter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		extra map[string]string
		want  string
	}{
		"nothing":         {map[string]string{"note": "x"}, ""},
		"a user's key":    {map[string]string{"_writer": "nightly-load", "_x": "y"}, "_writer=nightly-load"},
		"job before user": {map[string]string{"_user": "ann", "_job.id": "7"}, "_job.id=7"},
		"part of a word":  {map[string]string{"_happy": "x", "_rewriter": "y"}, ""},
		"streamer":        {map[string]string{"deltastreamer.checkpoint.key": "t,0:1"}, "Hudi Streamer"},
		"long":            {map[string]string{"_app": strings.Repeat("é", 200)}, "_app=" + strings.Repeat("é", 57) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2, 2)
			tc.extra["schema"] = vectorOf8
			b, err := json.Marshal(map[string]any{"operationType": "UPSERT", "extraMetadata": tc.extra})
			if err != nil {
				t.Fatal(err)
			}
			w.instant(at(3, 0)+"_"+at(3, 10)+".deltacommit", string(b))
			s := w.status()
			if len(s.Gaps) != 1 || s.Gaps[0].Writer != tc.want || s.Gaps[0].Reason != "pending" {
				t.Errorf("%+v, want writer %q", s.Gaps, tc.want)
			}
		})
	}
}

// A catch-up that is still to be compared with the whole table is not fresh, whatever its sets say.
func TestDoubtIsNotFresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 3)
	if s := w.status(); !s.Fresh {
		t.Fatalf("%+v", s)
	}
	w.index().Reconcile = "the files of commit 1 were gone when it was compared"
	if s := w.status(); s.Fresh || s.State != coverage.StateCatchingUp || !strings.Contains(s.Reason, "commit 1") || s.Next != "tidemark sync /data/t" {
		t.Errorf("%+v", s)
	}
}
