package file_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/file"
)

func open(t *testing.T) (*file.Store, string) {
	t.Helper()
	dir := t.TempDir()
	st, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return st, dir
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestNewRefusesWhatIsNoDirectory(t *testing.T) {
	t.Parallel()
	_, dir := open(t)
	f := filepath.Join(dir, "f")
	if err := os.WriteFile(f, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{f, filepath.Join(dir, "none")} {
		if _, err := file.New(p); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestNoTemporaryFilesAreLeft(t *testing.T) {
	t.Parallel()
	st, dir := open(t)
	for range 2 {
		_, _ = st.Create(t.Context(), "a", []byte("1"))
		_, _ = st.Replace(t.Context(), "b", []byte("1"), "")
	}
	if got := strings.Join(names(t, dir), " "); got != ".b.tidemark-lock a b" {
		t.Errorf("left %q", got)
	}
	info, err := os.Stat(filepath.Join(dir, "a"))
	if err != nil || info.Mode().Perm()&0o044 != 0o044 {
		t.Errorf("other users cannot read: %v %v", info.Mode(), err)
	}
}

func TestSweepTemps(t *testing.T) {
	t.Parallel()
	st, dir := open(t)
	for _, n := range []string{".tidemark-dead.tmp", ".tidemark-live.tmp", "theirs.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	live, err := os.Open(filepath.Join(dir, ".tidemark-live.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	if err := syscall.Flock(int(live.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if n, err := st.SweepTemps(t.Context(), ""); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if got := strings.Join(names(t, dir), " "); got != ".tidemark-live.tmp theirs.tmp" {
		t.Errorf("left %q", got)
	}
	if n, err := st.SweepTemps(t.Context(), "no/such/dir"); n != 0 || err != nil {
		t.Errorf("missing directory: %d, %v", n, err)
	}
}

func TestReadOnlyPlace(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("permissions do not bind root")
	}
	st, dir := open(t)
	if _, err := st.Create(t.Context(), "d/a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "d"), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "d"), 0o755) })
	_, create := st.Create(t.Context(), "d/b", nil)
	_, replace := st.Replace(t.Context(), "d/b", nil, "")
	for what, err := range map[string]error{"create": create, "replace": replace, "delete": st.Delete(t.Context(), "d/a")} {
		if !errors.Is(err, storage.ErrRefused) || storage.Hint(err) == "" {
			t.Errorf("%s: %v, hint %q", what, err, storage.Hint(err))
		}
	}
	if _, _, err := st.ReadFile(t.Context(), "d/a"); err != nil {
		t.Errorf("reading still works: %v", err)
	}
}

func TestSymlinksAndForeignNames(t *testing.T) {
	t.Parallel()
	st, dir := open(t)
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("12"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("f", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	infos, err := st.List(t.Context(), "")
	if err != nil || len(infos) != 2 || infos[1].Path != "link" || infos[1].Size != 2 {
		t.Errorf("list %v, %v", infos, err)
	}
	if _, err := st.Create(t.Context(), "dangling", nil); !errors.Is(err, storage.ErrExists) {
		t.Errorf("create over a dangling link: %v", err)
	}
}

// A disk that takes only a part of a file: nothing is there under the name, no temporary file stays, and the same process writes it
// once there is room. The limit on the size of files binds the whole process, so that the test is one of its own.
func TestShortWrite(t *testing.T) {
	t.Parallel()
	const child = "TIDEMARK_TEST_SHORT_WRITE"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestShortWrite$", "-test.count=1")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	st, dir := open(t)
	old, err := st.Replace(t.Context(), "state", []byte("old"), "")
	if err != nil {
		t.Fatal(err)
	}
	var room syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &room); err != nil {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("0123456789"), 10_000)
	reader := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(big)), nil }
	write := func() map[string]error {
		_, create := st.Create(t.Context(), "a", big)
		_, from := st.CreateFrom(t.Context(), "b", int64(len(big)), reader)
		_, replace := st.Replace(t.Context(), "state", big, old.Tag)
		return map[string]error{"create": create, "create from a reader": from, "replace": replace}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 50_000, Max: room.Max}); err != nil {
		t.Fatal(err)
	}
	for what, err := range write() {
		if err == nil || storage.Hint(err) == "" {
			t.Errorf("%s: %v, hint %q", what, err, storage.Hint(err))
		}
		for _, kind := range []error{storage.ErrConflict, storage.ErrExists, storage.ErrNotFound, storage.ErrRefused} {
			if errors.Is(err, kind) {
				t.Errorf("%s: %v has kind %v", what, err, kind)
			}
		}
	}
	if got := strings.Join(names(t, dir), " "); got != ".state.tidemark-lock state" {
		t.Errorf("left %q", got)
	}
	if b, _, err := st.ReadFile(t.Context(), "state"); string(b) != "old" || err != nil {
		t.Errorf("state %q, %v", b, err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &room); err != nil {
		t.Fatal(err)
	}
	for what, err := range write() {
		if err != nil {
			t.Errorf("%s, once there is room: %v", what, err)
		}
	}
}
