package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemark/internal/testkit"
)

// daemon is the program following tables, as a service manager runs it.
type daemon struct {
	t      *testing.T
	cmd    *exec.Cmd
	notes  chan string // what it tells the service manager
	lines  chan string // of its standard output
	log    chan string // of its standard error
	base   string      // of its URLs
	config string
}

// startDaemon runs `follow` with a configuration.
func startDaemon(t *testing.T, dir, text string) *daemon {
	t.Helper()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, notes: make(chan string, 100), lines: make(chan string, 1000), log: make(chan string, 1000), config: filepath.Join(dir, "tidemark.yaml")}
	d.configure(text)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "n"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		b := make([]byte, 1000)
		for {
			n, err := socket.Read(b)
			if err != nil {
				return
			}
			d.notes <- string(b[:n])
		}
	}()
	d.cmd = exec.Command(file, "follow", "--config", d.config, "--json", "--http", "127.0.0.1:0", "--interval", "1s", "--telemetry-log-format", "json")
	d.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(dir, "n"))
	for _, pipe := range []struct {
		get func() (io.ReadCloser, error)
		to  chan string
	}{{d.cmd.StdoutPipe, d.lines}, {d.cmd.StderrPipe, d.log}} {
		r, err := pipe.get()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for s := bufio.NewScanner(r); s.Scan(); {
				pipe.to <- s.Text()
			}
			close(pipe.to)
		}()
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	for line := range d.log {
		var l struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "serving HTTP" {
			d.base = "http://" + l.Address
			return d
		}
		t.Log(line)
	}
	t.Fatal("it ended before it served")
	return nil
}

func (d *daemon) configure(text string) {
	d.t.Helper()
	if err := os.WriteFile(d.config, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// await reads from a channel until something has a text in it.
func (d *daemon) await(from chan string, want string) string {
	d.t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case got, ok := <-from:
			if strings.Contains(got, want) {
				return got
			}
			if !ok {
				d.t.Fatalf("it ended before %q", want)
			}
		case <-limit:
			d.t.Fatalf("no %q", want)
		}
	}
}

func (d *daemon) get(path string) (int, string) {
	d.t.Helper()
	r, err := http.Get(d.base + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// A service manager starts the daemon, waits until it is ready, has it read its tables anew, and stops it.
func TestDaemon(t *testing.T) {
	t.Parallel()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	one, two := testkit.Table(t, "mor_basic"), testkit.Table(t, "local_zone")
	for _, table := range []string{one, two} {
		out, err := exec.Command(file, "index", "create", table, "--column", "embedding", "--option", "vector.num_clusters=3", "--json").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	d := startDaemon(t, dir, fmt.Sprintf("tables:\n  - {path: %q, name: one}\n  - %q\n", one, filepath.Join(dir, "later")))
	d.await(d.notes, "READY=1")
	if code, body := d.get("/readyz"); code != 200 {
		t.Errorf("ready, yet %d %s", code, body)
	}
	if code, body := d.get("/metrics"); code != 200 || !strings.Contains(body, `tidemark_lag_instants{index="embedding_idx",table="one"} 0`) {
		t.Errorf("metrics: %d %s", code, body)
	}
	if code, body := d.get("/v1/tables"); code != 200 || !strings.Contains(body, "does not exist yet") {
		t.Errorf("tables: %d %s", code, body)
	}
	// A fault in the file changes nothing.
	d.configure("tabels: []\n")
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if line := d.await(d.log, "reload refused"); !strings.Contains(line, "did you mean tables?") {
		t.Error(line)
	}
	if code, _ := d.get("/v1/tables/one"); code != 200 {
		t.Error("a reload that was refused took a table away")
	}
	d.configure("# nothing\n") // as one that is being written
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if line := d.await(d.log, "reload refused"); !strings.Contains(line, "names no table any more") {
		t.Error(line)
	}
	if code, _ := d.get("/v1/tables/one"); code != 200 {
		t.Error("an empty file took a table away")
	}
	if out, err := exec.Command(file, "follow", "--config", d.config).CombinedOutput(); err == nil || !strings.Contains(string(out), "names no table") {
		t.Errorf("a file without tables: %v: %s", err, out)
	}
	d.configure(fmt.Sprintf("tables:\n  - {path: %q, name: two}\n", two))
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	d.await(d.log, "reloaded")
	d.await(d.log, `"table":"two"`)
	if code, _ := d.get("/v1/tables/one"); code != 404 {
		t.Error("a table that was taken out is there")
	}
	if out, err := exec.Command(file, "follow", one, "--http", strings.TrimPrefix(d.base, "http://")).CombinedOutput(); err == nil || !strings.Contains(string(out), "another program may be there") {
		t.Errorf("a port that is taken: %v: %s", err, out)
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.await(d.notes, "STOPPING=1")
	d.await(d.log, "stopped")
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("the end: %v", err)
	}
}

// One line for each commit that is covered.
func TestFollowPrintsCommits(t *testing.T) {
	t.Parallel()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	table := testkit.Table(t, "demo_words")
	if out, err := exec.Command(file, "index", "create", table, "--column", "embedding", "--option", "vector.num_clusters=16", "--as-of", "20261130021410099").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d := startDaemon(t, t.TempDir(), fmt.Sprintf("tables: [%q]\n", table))
	for range 4 {
		var line coveredLine
		if err := json.Unmarshal([]byte(d.await(d.lines, "covered")), &line); err != nil {
			t.Fatal(err)
		}
		if line.Event != "covered" || line.Table != table || line.Index != "embedding_idx" || len(line.Counts) != 6 || line.MDTInstant == "" || line.Mode != "full" {
			t.Errorf("got %+v", line)
		}
	}
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("the end: %v", err)
	}
}
