package mdt

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"tidemark/internal/hudi/logfile"
	"tidemark/internal/storage"
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

// A large delete block is not kept beside the keys in it, which count as what they take: beyond the bound the layers are made anew.
func TestKeptLayersAreBounded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	st := fixture(t)
	const id, n = "20261130023900001", 30_000
	deletes, size := []logfile.Delete{{Key: "k0001", Partition: recordIndex}}, int64(0)
	for i := range n {
		key := fmt.Sprintf("another-key-of-some-length-%020d", i)
		deletes, size = append(deletes, logfile.Delete{Key: key, Partition: recordIndex}), size+int64(len(key))
	}
	del := logfile.AppendBlock(nil, logfile.TypeDelete, []logfile.HeaderEntry{{Key: logfile.InstantTime, Value: id}}, logfile.DeleteContent(nil, deletes))
	if len(del) <= WholeFile {
		t.Fatalf("a log of %d bytes is read whole", len(del))
	}
	name := recordDir + ".record-index-0000-0_" + id + ".log.1_7427-1-0"
	st.Put(name, del, time.Time{})
	commits := paths(st, ".hoodie/metadata/.hoodie/timeline/", "_")
	st.Put(".hoodie/metadata/.hoodie/timeline/"+id+"_20261130023900002.deltacommit", content(t, st, commits[0]), time.Time{})
	_, data, err := timeline.Open(ctx, st, ".hoodie")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(ctx, st)
	if err != nil {
		t.Fatal(err)
	}
	look := func() {
		t.Helper()
		got, err := m.LookupRecords(ctx, data, []string{"k0001", "k0002"})
		if err != nil || len(got) != 1 || got["k0002"].FileID == "" {
			t.Errorf("k0001 is deleted, k0002 is not: %v %v", got, err)
		}
	}
	look()
	for _, b := range m.files[name].blocks {
		if b.Content != nil {
			t.Errorf("%d bytes of a delete block are held", len(b.Content))
		}
	}
	if got := m.records.bytes; got < size || got > 3*size+1<<20 {
		t.Errorf("the layers count %d bytes, the deleted keys alone have %d", got, size)
	}
	groups := len(m.records.layers)
	m.records.keep(1000, []layer{{bytes: holdLayers}})
	if len(m.records.layers) != groups {
		t.Error("layers beyond the bound are kept")
	}
	m.records = keptLayers{data: data, layers: map[int][]layer{}, bytes: holdLayers - size}
	look()
	look()
	if k := recordGroup("k0001", len(m.listed[recordIndex].groups)); m.records.layers[k] != nil || m.records.bytes > holdLayers {
		t.Errorf("there is no room for the layers, but they are kept: %d bytes", m.records.bytes)
	}
	if err := st.Delete(ctx, name); err != nil {
		t.Fatal(err)
	}
	if _, err := m.LookupRecords(ctx, data, []string{"k0001"}); storage.Hint(err) == "" || !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the log is gone: %v, hint %q", err, storage.Hint(err))
	}
}
