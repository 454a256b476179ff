package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/testkit"
	"tidemark/search"
)

// indexed unpacks a table, makes an index of its first snapshot and takes in all later commits.
func indexed(t *testing.T, name, metric string) string {
	t.Helper()
	dir := testkit.Table(t, name)
	first := testkit.Oracle(t, name)[0].Instants[0].Requested
	for _, args := range [][]string{{"index", "create", dir, "--column", "embedding", "--as-of", first, "--option", "vector.num_clusters=3", "--option", "vector.metric=" + metric}, {"sync", dir}} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != exitOK {
			t.Fatalf("%q: exit code %d: %s%s", args, code, &stdout, &stderr)
		}
	}
	return dir
}

// input is a command line that is bad in some way, or of a table that is: an error, or the right answer.
type input struct {
	name, table string
	vector      string // JSON; asked with --vector, and twice in a --vector-file
	file        string // lines of a --vector-file, instead
	args        string // further ones
	code        int
	says        string // in the error
	rows        int    // of each answer
	unusable    bool   // the index cannot answer this: FAIL and WARN say so, FALLBACK and brute force give rows
	onlyIndex   bool   // brute force gives rows
}

// Every kind of bad input on the command line, in every mode and policy, for one query and in a batch, for people and for programs.
func TestSearchInput(t *testing.T) {
	t.Parallel()
	tables := map[string]string{"": indexed(t, "mor_basic", "cosine"), "l2": indexed(t, "mor_basic", "l2"), "dot": indexed(t, "mor_basic", "dot_product"), "emptied": indexed(t, "emptied_mor", "cosine"),
		"gone": indexed(t, "emptied_cow", "cosine"), "nulls": indexed(t, "without_vectors", "cosine"), "building": indexed(t, "mor_basic", "cosine"), "absent": testkit.Table(t, "mor_basic"), "no table": t.TempDir()}
	state := filepath.Join(tables["building"], ".hoodie", ".tidemark", "state.json")
	b, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	st, err := mdt.DecodeState(b)
	if err != nil {
		t.Fatal(err)
	}
	st.Indexes["embedding_idx"].Generations[0].State = mdt.GenBuilding
	if b, err = mdt.EncodeState(st); err == nil {
		err = os.WriteFile(state, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	steps := testkit.Oracle(t, "mor_basic")
	last := steps[len(steps)-1].Rows
	eu := 0
	for _, r := range last {
		if r.Partition == "eu" {
			eu++
		}
	}
	const v, huge = `[1,2,3,4,5,6,7,8]`, `[3e38,-3e38,3e38,3e38,-3e38,3e38,3e38,3e38]`
	for _, c := range []input{
		{name: "k of 0", vector: v, args: "-k 0", code: exitUsage, says: "-k 0"},
		{name: "k below 0", vector: v, args: "-k -1", code: exitUsage, says: "-k -1"},
		{name: "k beyond memory", vector: v, args: "-k 9223372036854775807", code: exitUsage, says: "1000000"},
		{name: "k beyond numbers", vector: v, args: "-k 1e400", code: exitUsage, says: "1e400"},
		{name: "k above the rows", vector: v, args: "-k 500000", rows: len(last)},
		{name: "another dimension", vector: `[1,2]`, code: exitUsage, says: "2 components"},
		{name: "no component", vector: `[]`, code: exitUsage, says: "0 components"},
		{name: "NaN", vector: `[NaN,2,3,4,5,6,7,8]`, code: exitUsage, says: "not a JSON array of numbers"},
		{name: "a component of text", vector: `["1",2,3,4,5,6,7,8]`, code: exitUsage, says: "not a JSON array of numbers"},
		{name: "a component of null", vector: `[1,null,3,4,5,6,7,8]`, code: exitUsage, says: "component 1 is null"},
		{name: "infinite", vector: `[1e400,2,3,4,5,6,7,8]`, code: exitUsage, says: "1e400"},
		{name: "infinite as float32", vector: `[1e300,2,3,4,5,6,7,8]`, code: exitUsage, says: "query vector"},
		{name: "zero for cosine", vector: `[0,0,0,0,0,0,0,0]`, code: exitUsage, says: "zero"},
		{name: "-0 for cosine", vector: `[-0,-0.0,-0,-0,-0,-0,-0,-0e9]`, code: exitUsage, says: "zero"},
		{name: "denormal", vector: `[1e-45,1e-45,0,0,0,0,0,-0]`, args: "-k 3", rows: 3},
		{name: "very long, cosine", vector: huge, args: "-k 3", rows: 3},
		{name: "very long, L2", table: "l2", vector: huge, args: "-k 3", code: exitUsage, says: "longer than", rows: 3, unusable: true},
		{name: "very long, dot product", table: "dot", vector: huge, args: "-k 3", code: exitUsage, says: "longer than", rows: 3, unusable: true},
		{name: "zero for dot product", table: "dot", vector: `[0,0,0,0,0,0,0,0]`, args: "-k 3", code: exitUsage, says: "shorter than", rows: 3, unusable: true},
		{name: "unknown partition", vector: v, args: "--partition eu --partition mars", code: exitUsage, says: "mars"},
		{name: "a partition twice", vector: v, args: "-k 5 --partition eu --partition eu/", rows: 5},
		{name: "fewer rows in the partition", vector: v, args: "-k 100 --partition eu", rows: eu},
		{name: "more probes than clusters", vector: v, args: "-k 1 --nprobes 4", code: exitUsage, says: "has 3 clusters", rows: 1, onlyIndex: true},
		{name: "no probes", vector: v, args: "--nprobes 0", code: exitUsage, says: "--nprobes 0"},
		{name: "unknown column", vector: v, args: "--columns nothing", code: exitUsage, says: "nothing"},
		{name: "unknown column, no rows", table: "emptied", vector: v, args: "--columns nothing", code: exitUsage, says: "nothing"},
		{name: "a column twice", vector: v, args: "--columns title,title", code: exitUsage, says: "twice"},
		{name: "the vector as a column", vector: v, args: "-k 2 --columns embedding", rows: 2},
		{name: "unknown key", args: "--key nobody", code: exitFailed, says: "nobody"},
		{name: "empty key", args: "--key=", code: exitUsage, says: "empty"},
		{name: "key of an emptied table", table: "emptied", args: "--key k0001", code: exitFailed, says: "k0001"},
		{name: "key of a row without a vector", table: "nulls", args: "--key k0001", code: exitUsage, says: "k0001"},
		{name: "neither", code: exitUsage, says: "give one of --key"},
		{name: "key and vector", vector: v, args: "--key k0001", code: exitUsage, says: "give one of --key"},
		{name: "no rows: deleted", table: "emptied", vector: v, rows: 0},
		{name: "no rows: partitions deleted", table: "gone", vector: v, rows: 0},
		{name: "no rows in a partition", table: "emptied", vector: v, args: "--partition eu", rows: 0},
		{name: "no row can be indexed", table: "nulls", vector: v, rows: 0},
		{name: "no rows, with columns", table: "nulls", vector: v, args: "--columns title", rows: 0},
		{name: "no index", table: "absent", vector: v, code: exitFailed, says: "index"},
		{name: "no table", table: "no table", vector: v, code: exitFailed, says: "hoodie"},
		{name: "unknown index", vector: v, args: "--index x", code: exitFailed, says: "index x"},
		{name: "index being built", table: "building", vector: v, args: "-k 4", code: exitFailed, says: "no active generation", rows: 4, unusable: true},
		{name: "no queries", file: "\n", code: exitUsage, says: "not a JSON array of numbers"},
		{name: "10,000 queries", file: strings.Repeat(v+"\n", search.MaxBatch), args: "-k 1", rows: 1},
		{name: "10,001 queries", file: strings.Repeat(v+"\n", search.MaxBatch+1), args: "-k 1", code: exitUsage, says: "more than 10000 vectors"},
		{name: "too many rows", file: strings.Repeat(v+"\n", search.MaxBatch), args: "-k 101", code: exitUsage, says: "more than 1000000 rows"},
		{name: "a bad query in a batch", file: v + "\n[1]\n", code: exitUsage, says: "query 2 of 2"},
		{name: "a null query in a batch", file: v + "\nnull\n", code: exitUsage, says: "vector 2"},
		{name: "no time", vector: v, args: "--timeout 0", code: exitFailed, says: "the deadline came before"},
		{name: "time below 0", vector: v, args: "--timeout=-1ms", code: exitUsage, says: "--timeout -1ms"},
		{name: "time without a unit", vector: v, args: "--timeout 1", code: exitUsage, says: "--timeout"},
		{name: "time enough", vector: v, args: "-k 3 --timeout 1h", rows: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := 0
			for _, mode := range []string{"exact_rerank", "approximate", "brute_force"} {
				for _, policy := range []string{"FAIL", "warn", "Fallback"} {
					if len(c.file) > 10_000 && policy != "FAIL" {
						continue // it takes a while, and the policy has no say
					}
					if n++; !testkit.Thinned(n, 4) {
						c.asked(t, tables[c.table], mode, policy)
					}
				}
			}
		})
	}
}

// asked asks in one mode and policy, alone and in a batch, for people and for programs.
func (c input) asked(t *testing.T, table, mode, policy string) {
	t.Helper()
	code := c.code
	if c.unusable && (policy == "Fallback" || mode == "brute_force") || c.onlyIndex && mode == "brute_force" {
		code = exitOK
	}
	file := filepath.Join(t.TempDir(), "vectors")
	lines := c.file
	if lines == "" {
		lines = c.vector + "\n" + c.vector + "\n"
	}
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	var asks [][]string
	switch {
	case c.file != "":
		asks = [][]string{{"--vector-file", file}}
	case c.vector != "":
		asks = [][]string{{"--vector", c.vector}, {"--vector-file", file}}
	default:
		asks = [][]string{nil}
	}
	for _, ask := range asks {
		args := append(append([]string{"search", table, "--mode", mode, "--policy", policy}, strings.Fields(c.args)...), ask...)
		how := fmt.Sprintf("%s, %s, %.14q", mode, policy, ask)
		var people, stderr, programs, none bytes.Buffer
		got := run(t.Context(), args, &people, &stderr)
		again := run(t.Context(), append(args, "--json"), &programs, &none)
		if got != code || again != code || none.Len() > 0 {
			t.Errorf("%s: exit codes %d and %d, want %d: %s%s", how, got, again, code, &stderr, &none)
			continue
		}
		if code != exitOK {
			var object map[string]string
			err := json.Unmarshal(programs.Bytes(), &object)
			if err != nil || !strings.Contains(object["error"], c.says) || object["hint"] == "" || (object["kind"] == "usage") != (code == exitUsage) {
				t.Errorf("%s: %v: %s", how, err, &programs)
			}
			if text := stderr.String(); people.Len() > 0 || !strings.HasPrefix(text, "tidemark: ") || strings.Count(text, "\n") != 1 || !strings.Contains(text, c.says) {
				t.Errorf("%s: got %q", how, text)
			}
			continue
		}
		dec := json.NewDecoder(&programs)
		n := 0
		for ; dec.More(); n++ {
			var a search.Answer
			if err := dec.Decode(&a); err != nil {
				t.Fatalf("%s: %v", how, err)
			}
			did := mode
			if c.unusable {
				did = "brute_force"
			}
			if len(a.Results) != c.rows || a.Results == nil || !a.Complete || a.Fresh != (c.table != "building") || string(a.Mode) != did || (a.Reason == "") != (did == mode) {
				t.Errorf("%s: %d rows, want %d; complete %v, fresh %v, %s, %q", how, len(a.Results), c.rows, a.Complete, a.Fresh, a.Mode, a.Reason)
			}
		}
		if want := strings.Count(lines, "\n"); n != want && (n != 1 || c.file != "" || len(ask) > 0 && ask[0] == "--vector-file") {
			t.Errorf("%s: %d answers, want %d", how, n, want)
		}
		rows := "rows"
		if c.rows == 1 {
			rows = "row"
		}
		if strings.Count(people.String(), fmt.Sprintf("%d %s nearest to ", c.rows, rows)) != n || stderr.Len() > 0 {
			t.Errorf("%s: got %.300s%s", how, &people, &stderr)
		}
	}
}

// A file of vectors is as long as the bound, or refused: also where the bound lies between two vectors, and whatever comes after it.
func TestParseVectorsBound(t *testing.T) {
	t.Parallel()
	const limit, line = 4 << 20, "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10] \n"
	long := "[1" + strings.Repeat(" ", 4092) + "]\n" // 4,096 bytes
	whole := strings.Repeat(long, limit/len(long))
	for name, c := range map[string]struct {
		text string
		n    int
		says string
	}{
		"below":                    {line + line, 2, ""},
		"at the bound":             {whole, limit / len(long), ""},
		"beyond, at a vector":      {whole + line, 0, "more than 4 MiB"},
		"beyond, in a vector":      {whole[:limit-len(long)] + "[1" + strings.Repeat(" ", 2*len(long)) + "]", 0, "more than 4 MiB"},
		"beyond, white space only": {whole + "\n", 0, "more than 4 MiB"},
		"at the bound, an error":   {whole[:limit-2] + "x\n", 0, "not a JSON array"},
		"at the bound, an end":     {whole[:limit-2] + "  ", 0, "unexpected EOF"},
	} {
		all, err := parseVectors(strings.NewReader(c.text), limit)
		if c.says == "" && (err != nil || len(all) != c.n) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %d vectors, %v", name, len(all), err)
		}
	}
}

// Without time it is still said what is wrong with the command: more time would not help.
func TestSearchWithoutTime(t *testing.T) {
	t.Parallel()
	dir := indexed(t, "mor_basic", "cosine")
	for _, c := range []struct {
		table, says string
	}{
		{dir, "the deadline came before"},
		{dir + "x", "not found"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"search", c.table, "--key", "k0001", "--timeout", "0"}, &stdout, &stderr)
		if said := stderr.String(); code != exitFailed || !strings.Contains(said, c.says) || strings.Contains(said, "more time") != (c.table == dir) {
			t.Errorf("%s: %d, %s", c.table, code, said)
		}
	}
}
