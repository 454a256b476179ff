package timeline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"tidemark/internal/storage"
	"tidemark/timeline"
)

func TestArchiveFilesAreTheManifests(t *testing.T) {
	t.Parallel()
	st, p, _ := fixture(t, "archived")
	got, err := timeline.ArchiveFiles(t.Context(), st, dotHoodie, p)
	if err != nil {
		t.Fatal(err)
	}
	infos, err := st.List(t.Context(), ".hoodie/timeline/history")
	if err != nil {
		t.Fatal(err)
	}
	level := 0
	for _, info := range infos {
		if len(info.Path) > 8 && info.Path[len(info.Path)-8:] == ".parquet" {
			level++
		}
	}
	if len(got) == 0 || len(got) >= level {
		t.Errorf("%d files of the %d in the folder: superseded ones must be left out", len(got), level)
	}
	for _, f := range got {
		if info, err := st.Stat(t.Context(), f.Path); err != nil || info.Size != f.Size || f.Min > f.Max {
			t.Errorf("%+v: %v %v", f, info, err)
		}
	}
	st, p, _ = fixture(t, "cow_basic")
	if got, err := timeline.ArchiveFiles(t.Context(), st, dotHoodie, p); err != nil || len(got) != 0 {
		t.Errorf("a table that never archived: %v, %v", got, err)
	}
	st, p, _ = fixture(t, "v6")
	if _, err := timeline.ArchiveFiles(t.Context(), st, dotHoodie, p); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("layout 1: %v", err)
	}
}

const history = ".hoodie/timeline/history/"

func manifest(names ...string) string {
	out := `{"files":[`
	for i, n := range names {
		if i > 0 {
			out += ","
		}
		out += fmt.Sprintf(`{ "fileName" : "%s", "fileLen" : 3 }`, n)
	}
	return out + "]}"
}

func TestArchiveVersion(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, v9)
	const old, current = "100_101_0.parquet", "102_103_1.parquet"
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"named by the version file": {map[string]string{history + "_version_": "9\n", history + "manifest_9": manifest(old), history + "manifest_10": manifest(current)}, old},
		"version file away":         {map[string]string{history + "manifest_9": manifest(old), history + "manifest_10": manifest(current), history + "manifest_11.tmp": ""}, current},
		"version file empty":        {map[string]string{history + "_version_": "", history + "manifest_9": manifest(old)}, old},
	} {
		got, err := timeline.ArchiveFiles(t.Context(), files(t, tt.files), dotHoodie, p)
		if err != nil || len(got) != 1 || got[0].Path != history+tt.want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	for name, text := range map[string]string{"no JSON": "{", "strange name": manifest("x.parquet"), "negative length": `{"files":[{"fileName":"1_2_0.parquet","fileLen":-1}]}`} {
		st := files(t, map[string]string{history + "manifest_1": text})
		if _, err := timeline.ArchiveFiles(t.Context(), st, dotHoodie, p); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	st := files(t, map[string]string{history + "_version_": "3"})
	if _, err := timeline.ArchiveFiles(t.Context(), st, dotHoodie, p); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("manifest away: %v", err)
	}
}

// Every instant inside a wide file is found, whatever the file's bounds are (O-AR-01).
func TestFindArchived(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, v9)
	st := files(t, map[string]string{history + "_version_": "1", history + "manifest_1": manifest("100_199_1.parquet", "150_250_0.parquet")})
	opened := 0
	rows := func(_ context.Context, path string, size int64) ([]timeline.ArchivedRow, error) {
		opened++
		var out []timeline.ArchivedRow
		for i := 100; i <= 199; i++ {
			if i != 160 {
				out = append(out, timeline.ArchivedRow{Requested: fmt.Sprint(i), Completed: fmt.Sprint(i + 1), Action: timeline.Commit})
			}
		}
		if path == history+"150_250_0.parquet" {
			out = []timeline.ArchivedRow{{Requested: "160"}, {Requested: "150"}}
		}
		if size != 3 {
			t.Errorf("size %d of %s", size, path)
		}
		return out, nil
	}
	for i := 100; i <= 199; i++ {
		row, ok, err := timeline.FindArchived(t.Context(), st, dotHoodie, p, fmt.Sprint(i), rows)
		if !ok || err != nil || row.Requested != fmt.Sprint(i) {
			t.Errorf("%d: got %+v %v, %v", i, row, ok, err)
		}
	}
	opened = 0
	if _, ok, err := timeline.FindArchived(t.Context(), st, dotHoodie, p, "300", rows); ok || err != nil || opened != 0 {
		t.Errorf("beyond all files: %v, %v, %d files opened", ok, err, opened)
	}
	if _, ok, err := timeline.FindArchived(t.Context(), st, dotHoodie, p, "1505", rows); ok || err != nil {
		t.Errorf("between instants: %v, %v", ok, err)
	}
	if _, _, err := timeline.FindArchived(t.Context(), st, dotHoodie, p, "250", rows); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("in a file's name but not in its rows: %v", err)
	}
}

// A file that is gone because the archive was merged makes the reader start anew (O-AR-04).
func TestFindArchivedWhileMerging(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, v9)
	st := files(t, map[string]string{history + "manifest_1": manifest("100_101_0.parquet")})
	rows := func(ctx context.Context, path string, _ int64) ([]timeline.ArchivedRow, error) {
		if path == history+"100_101_0.parquet" {
			_, err := st.Create(ctx, history+"manifest_2", []byte(manifest("100_101_1.parquet")))
			return nil, errors.Join(storage.ErrNotFound, err)
		}
		return []timeline.ArchivedRow{{Requested: "100"}}, nil
	}
	if _, ok, err := timeline.FindArchived(t.Context(), st, dotHoodie, p, "100", rows); !ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
	gone := func(context.Context, string, int64) ([]timeline.ArchivedRow, error) { return nil, storage.ErrNotFound }
	if _, _, err := timeline.FindArchived(t.Context(), st, dotHoodie, p, "100", gone); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("never there: %v", err)
	}
}
