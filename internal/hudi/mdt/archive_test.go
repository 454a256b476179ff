package mdt

import (
	"context"
	"path"
	"testing"

	"tidemark/timeline"
)

func TestArchived(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	st, m, _ := real(t, "archived")
	files, err := timeline.ArchiveFiles(ctx, st, path.Join(rootDir, dataDir), m.Props)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d archive files, %v", len(files), err)
	}
	read := ArchiveReader(st)
	deltas := 0
	for _, f := range files {
		rows, err := read(ctx, f.Path, f.Size)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			ok, err := m.Archived(ctx, r.Requested, r.Completed)
			if err != nil || ok != (r.Action == timeline.DeltaCommit) {
				t.Errorf("%s %s: %v %v", r.Requested, r.Action, ok, err)
			}
			if r.Action != timeline.DeltaCommit {
				continue
			}
			deltas++
			if _, err := timeline.ParseCommit(r.Metadata); err != nil {
				t.Errorf("%s: %v", r.Requested, err)
			}
			if ok, err := m.Archived(ctx, r.Requested, r.Completed+"0"); ok || err != nil {
				t.Errorf("%s with another completion: %v %v", r.Requested, ok, err)
			}
		}
	}
	if deltas == 0 {
		t.Error("no deltacommit is archived")
	}
	for _, i := range m.Timeline.Writes() {
		if ok, err := m.Archived(ctx, i.Requested, i.Completed); ok || err != nil {
			t.Errorf("active %s: %v %v", i.Requested, ok, err)
		}
	}
	if _, err := read(ctx, "no/such.parquet", 100); err == nil {
		t.Error("missing file is no error")
	}
	// A table that never archived.
	_, other, _ := real(t, "mor_basic")
	if ok, err := other.Archived(ctx, "20261130023707408", "20261130023717048"); ok || err != nil {
		t.Errorf("no archive: %v %v", ok, err)
	}
}
