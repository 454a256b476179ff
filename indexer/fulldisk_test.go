package indexer_test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/indexer"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/internal/storage/file"
)

// On a local disk that takes only a part of a file, a sync says so, and the next one of the same process makes the index right. The
// limit on the size of files, which breaks writes off, binds the whole process, so that the test is one of its own.
func TestSyncOnALocalDiskWithoutRoom(t *testing.T) {
	t.Parallel()
	const child = "TIDEMARK_TEST_NO_ROOM"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSyncOnALocalDiskWithoutRoom$", "-test.count=1")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	start, want := troubled(t)
	var room syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &room); err != nil {
		t.Fatal(err)
	}
	limit := func(r syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &r); err != nil {
			t.Fatal(err)
		}
	}
	var sizes []uint64
	for _, f := range start.Paths() {
		if strings.Contains(f, "vector_index_") || strings.HasSuffix(f, "state.json") {
			info, err := start.Stat(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, uint64(info.Size))
		}
	}
	failed := 0
	for _, most := range append(sizes, 1, 100, 700, 1500) {
		dir := t.TempDir()
		for _, f := range start.Paths() {
			b, info, err := start.ReadFile(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(dir, f)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, b, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(name, info.ModTime, info.ModTime); err != nil {
				t.Fatal(err)
			}
		}
		st, err := file.New(dir)
		if err != nil {
			t.Fatal(err)
		}
		limit(syscall.Rlimit{Cur: most, Max: room.Max})
		_, err = indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{Sink: dead()})
		limit(room)
		if err != nil {
			if failed++; !strings.Contains(storage.Hint(err), "ulimit") {
				t.Errorf("files of %d bytes: %v, hint %q", most, err, storage.Hint(err))
			}
		}
		if _, err := indexer.Sync(t.Context(), mdt.Inside(st), indexer.SyncOptions{Sink: dead()}); err != nil {
			t.Errorf("files of %d bytes, once there is room: %v", most, err)
		}
		if d := cmp.Diff(want, outcomeOf(t, mdt.Inside(st))); d != "" {
			t.Errorf("files of %d bytes: (-without trouble +with)\n%s", most, d)
		}
	}
	if failed < 4 {
		t.Errorf("only %d syncs found no room: the test shows nothing", failed)
	}
}
