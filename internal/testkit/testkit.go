package testkit

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tidemark/fixtures"
)

// Root returns the repository's top folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Path returns the path of a file or folder below fixtures/.
func Path(name string) string { return filepath.Join(Root(), "fixtures", filepath.FromSlash(name)) }

// File returns the content of a file below fixtures/, unpacked if its name ends in .gz.
func File(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(Path(name))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(name, ".gz") {
		return b
	}
	zr, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Table unpacks fixtures/tables/<name>.tar.gz into a temporary folder of the test and returns the table's base path.
func Table(t testing.TB, name string) string {
	t.Helper()
	f, err := os.Open(Path("tables/" + name + ".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	if err := fixtures.Unpack(f, dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, filepath.Base(name))
}

// Step is one line of an oracle: what Spark's Hudi reader saw after a completed step.
type Step struct {
	Step     int    `json:"step"`
	Op       string `json:"op"`
	Instants []struct {
		Requested  string `json:"requested"`
		Completion string `json:"completion"`
		Action     string `json:"action"`
	} `json:"instants"`
	Gone    []json.RawMessage `json:"gone"`
	Pending []struct {
		Requested string `json:"requested"`
		Action    string `json:"action"`
		State     string `json:"state"`
	} `json:"pending"`
	Rows []Row `json:"rows"`
}

// Row is one row of a Step.
type Row struct {
	Key        string                     `json:"key"`
	Partition  string                     `json:"partition"`
	FileID     *string                    `json:"file_id"`
	CommitTime *string                    `json:"commit_time"`
	Vec        map[string]*string         `json:"vec"`
	Attrs      map[string]json.RawMessage `json:"attrs"`

	vectors map[string][]byte
}

// Vector returns the stored bytes of a vector column; nil if the column is NULL or not there.
func (r Row) Vector(column string) []byte { return r.vectors[column] }

// Oracle reads fixtures/tables/<name>.expected.jsonl.gz. Vectors written as "=" are filled in.
func Oracle(t testing.TB, name string) []Step {
	t.Helper()
	raw := File(t, "tables/"+name+".expected.jsonl.gz")
	sc := bufio.NewScanner(bytes.NewReader(raw))
	sc.Buffer(nil, len(raw)+1)
	var steps []Step
	last := map[string][]byte{}
	for sc.Scan() {
		var s Step
		if err := json.Unmarshal(sc.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		for i := range s.Rows {
			r := &s.Rows[i]
			r.vectors = map[string][]byte{}
			for column, text := range r.Vec {
				id := r.Partition + "\x00" + r.Key + "\x00" + column
				if text == nil {
					continue
				}
				if *text != "=" {
					b, err := base64.StdEncoding.DecodeString(*text)
					if err != nil {
						t.Fatal(err)
					}
					last[id] = b
				}
				r.vectors[column] = last[id]
			}
		}
		steps = append(steps, s)
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
