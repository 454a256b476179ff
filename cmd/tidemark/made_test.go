package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tidemark/internal/hudi/hudimodel"
)

// made are the tables that scripts made up, by path.
var made sync.Map // of *hudimodel.World

// cmdMade makes up a table of vectors of two numbers.
func cmdMade(t *testing.T, ts *testscript.TestScript, args []string) {
	w := hudimodel.New(t, hudimodel.Config{MoR: true})
	vectors := map[string][]string{"nothing": nil, "none": {}, "unindexable": {"", "0000000000000000", "0000c07f0000803f"}, "rows": {"0000803f00000000", "000000c000000000"}}[args[0]]
	if args[0] != "nothing" {
		commit := w.Begin("deltacommit", "INSERT")
		var rows []hudimodel.Row
		for i, v := range vectors {
			row := hudimodel.Row{Key: string(rune('a' + i)), TS: 5}
			if v != "" {
				row.Vec = hudimodel.Hex(v)
			}
			rows = append(rows, row)
		}
		if len(rows) > 0 {
			commit.Base("eu", "g-0", rows...)
		}
		commit.Complete()
	}
	dir := ts.MkAbs(args[1])
	made.Store(dir, w)
	ts.Check(write(w, dir))
}

// cmdEmptied deletes the rows of a table that was made up, or takes their vectors away.
func cmdEmptied(ts *testscript.TestScript, args []string) {
	dir := ts.MkAbs(args[0])
	v, _ := made.Load(dir)
	w := v.(*hudimodel.World)
	block := hudimodel.Block{Kind: hudimodel.Deletes, Keys: []hudimodel.Delete{{Key: "a"}, {Key: "b"}}}
	if len(args) > 1 {
		block = hudimodel.Block{Kind: hudimodel.Avro, Rows: []hudimodel.Row{{Key: "a", TS: 6}, {Key: "b", TS: 6, Vec: make([]byte, 8)}}}
	}
	commit := w.Begin("deltacommit", "UPSERT")
	commit.Log("eu", "g-0", block)
	commit.Complete()
	ts.Check(write(w, dir))
}

// write brings the files of a made-up table into a folder. Those that are there stay.
func write(w *hudimodel.World, dir string) error {
	for _, path := range w.Store.Paths() {
		to := filepath.Join(dir, filepath.FromSlash(path))
		if _, err := os.Stat(to); err == nil {
			continue
		}
		b, info, err := w.Store.ReadFile(context.Background(), path)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, b, 0o644)
		}
		if err == nil {
			err = os.Chtimes(to, info.ModTime, info.ModTime)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
