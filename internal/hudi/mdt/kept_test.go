package mdt

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"tidemark/internal/hudi/logfile"
	"tidemark/internal/storage/file"
	"tidemark/internal/storage/mem"
	"tidemark/internal/testkit"
	"tidemark/timeline"
)

// Layers that are kept serve the timeline that they were made for only, no look-up without some instants, and are gone with the files that
// they are made of.
func TestKeptLayers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	st := fixture(t)
	const id = "20261130023900001"
	del := logfile.AppendBlock(nil, logfile.TypeDelete, []logfile.HeaderEntry{{Key: logfile.InstantTime, Value: id}},
		logfile.DeleteContent(nil, []logfile.Delete{{Key: "k0001", Partition: recordIndex}}))
	st.Put(recordDir+".record-index-0000-0_"+id+".log.1_7427-1-0", del, time.Time{})
	commits := paths(st, ".hoodie/metadata/.hoodie/timeline/", "_")
	st.Put(".hoodie/metadata/.hoodie/timeline/"+id+"_20261130023900002.deltacommit", content(t, st, commits[0]), time.Time{})
	timelineOf := func(st *mem.Store) *timeline.Timeline {
		_, data, err := timeline.Open(ctx, st, ".hoodie")
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	counts := timelineOf(st) // the log that takes k0001 counts
	st.Put(".hoodie/timeline/"+id+".deltacommit.requested", nil, time.Time{})
	pending := timelineOf(st) // it does not
	m, err := Open(ctx, st)
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"k0001"}
	for i := range 50 {
		keys = append(keys, fmt.Sprintf("k%04d", i))
	}
	there := func(what string, data *timeline.Timeline, want bool) {
		t.Helper()
		got, err := m.LookupRecords(ctx, data, keys)
		if _, ok := got["k0001"]; err != nil || ok != want || len(got) < 40 {
			t.Errorf("%s: k0001 there %v, want %v, %d keys: %v", what, ok, want, len(got), err)
		}
		each := map[string]Location{}
		if err := m.EachRecord(ctx, data, keys, func(k string, at Location) { each[k] = at }); err != nil || !maps.Equal(each, got) {
			t.Errorf("%s: one by one %d keys, together %d: %v", what, len(each), len(got), err)
		}
	}
	for range 2 {
		there("completed", counts, false)
		there("completed, kept", counts, false)
		there("pending", pending, true)
		there("pending, kept", pending, true)
	}
	if len(m.records.layers) == 0 || m.records.data != pending {
		t.Errorf("%d layers kept", len(m.records.layers))
	}
	there("completed", counts, false)
	if got, err := m.LookupRecordsWithout(ctx, counts, map[string]bool{id: true}, keys); err != nil || got["k0001"].FileID == "" {
		t.Errorf("without the log's instant: %v %v", got["k0001"], err)
	}
	there("after a look-up without the instant", counts, false)

	// Files are dropped when too many bytes are held: what was made of them goes, too.
	m.held = holdBytes
	clear(m.files)
	if _, err := m.Files(ctx, counts, nil); err != nil {
		t.Fatal(err)
	}
	if m.dropped != 1 || len(m.records.layers) != 0 {
		t.Errorf("dropped %d times, layers of %d groups left", m.dropped, len(m.records.layers))
	}
	there("after files were dropped", counts, false)
}

// Layers are not made again for each look-up.
func TestLayersAreMadeOnce(t *testing.T) {
	t.Parallel()
	st, err := file.New(testkit.Table(t, "mor_basic"))
	if err != nil {
		t.Fatal(err)
	}
	_, data, err := timeline.Open(t.Context(), st, ".hoodie")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.LookupRecords(t.Context(), data, []string{"k0001"}); err != nil {
		t.Fatal(err)
	}
	clear(m.listed[recordIndex].groups[recordGroup("k0001", len(m.listed[recordIndex].groups))].logs) // names nothing from now on
	clear(m.files)
	if got, err := m.LookupRecords(t.Context(), data, []string{"k0001"}); err != nil || len(got) != 1 {
		t.Errorf("%v %v", got, err)
	}
}
