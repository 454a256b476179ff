package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/mdt"
)

// inspectAvro shows an Avro container file: instants from table version 8 on, plans, rollback metadata.
func (a *app) inspectAvro(ctx context.Context, f inspected) error {
	b, err := f.content(ctx)
	if err != nil {
		return err
	}
	_, records, err := avrox.ReadContainer(b)
	if err != nil {
		return err
	}
	if !a.json {
		a.say("Avro container, %s: %s", size(f.size), plural(len(records), "record"))
	}
	for _, r := range records {
		v := printable(r)
		if a.json {
			if err := a.object(v); err != nil {
				return err
			}
			continue
		}
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		for _, line := range strings.Split(string(text), "\n") {
			a.say("%s", line)
		}
	}
	return nil
}

// printable turns a decoded Avro value into what JSON can show: bytes become text where they are text, else hex.
func printable(v any) any {
	switch x := v.(type) {
	case avrox.Record:
		return printable(map[string]any(x))
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, inner := range x {
			out[k] = printable(inner)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, inner := range x {
			out[i] = printable(inner)
		}
		return out
	case []byte:
		if utf8.Valid(x) {
			return string(x)
		}
		return hex.EncodeToString(x)
	}
	return v
}

// parquetColumn is one column of a base file for programs.
type parquetColumn struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// parquetVector is one VECTOR column that a base file's footer names, for programs.
type parquetVector struct {
	Column  string `json:"column"`
	Dim     int    `json:"dim"`
	Element string `json:"element"`
}

func (a *app) inspectParquet(ctx context.Context, f inspected) error {
	p, err := basefile.Open(ctx, f.source())
	if err != nil {
		return err
	}
	vectors, err := p.Vectors()
	if err != nil {
		return err
	}
	var columns []parquetColumn
	for _, name := range p.Columns() {
		columns = append(columns, parquetColumn{name, p.ColumnKind(name).String()})
	}
	if a.json {
		named := []parquetVector{}
		for _, v := range vectors {
			named = append(named, parquetVector{v.Column, v.Dim, string(v.Element)})
		}
		return a.object(map[string]any{"file": f.name, "kind": "parquet", "rows": p.Rows(), "columns": columns, "vectors": named})
	}
	a.say("Parquet base file, %s: %s", size(f.size), plural(p.Rows(), "row"))
	for _, v := range vectors {
		a.say("vector column %s: %d × %s", v.Column, v.Dim, v.Element)
	}
	g := newGrid()
	for _, c := range columns {
		g.add(c.Name, c.Kind)
	}
	g.print(a, "  ")
	return nil
}

// showState prints the state object of a table in short.
func (a *app) showState(b []byte) error {
	s, err := mdt.DecodeState(b)
	if err != nil {
		return err
	}
	owner := "free"
	if s.Owner != "" {
		owner = fmt.Sprintf("%s on %s, process %d, until %s", s.Owner, s.Host, s.PID, s.ValidUntil.UTC().Format("2006-01-02 15:04:05Z"))
	}
	g := newGrid()
	g.add("format", s.Format)
	g.add("lease", fmt.Sprintf("epoch %d, %s", s.Epoch, owner))
	g.add("newest time of ours", s.LastTime)
	g.add("newest time of the table", s.NewestSeen)
	g.add("commits of ours", len(s.Commits))
	g.add("files in use", len(s.Live("")))
	if moved := 0; len(s.Ledger) > 0 {
		for _, l := range s.Ledger {
			moved += l.Instants
		}
		g.add("evidence in the ledger", fmt.Sprintf("%s, %s", plural(moved, "covered instant"), plural(len(s.Ledger), "file")))
	}
	if s.Intent != nil {
		g.add("commit under way", fmt.Sprintf("%s, id %s, %s", s.Intent.State, s.Intent.ID, plural(len(s.Intent.Files), "file")))
	}
	if s.Paused {
		g.add("paused", "yes")
	}
	a.say("state of the table's indexes, %s", size(int64(len(b))))
	g.print(a, "  ")
	for _, name := range slices.Sorted(maps.Keys(s.Indexes)) {
		a.showIndexState(s, s.Indexes[name])
	}
	return nil
}

func (a *app) showIndexState(s *mdt.State, x *mdt.Index) {
	dropped := ""
	if x.Dropped {
		dropped = ", dropped"
	}
	a.say("index %s on %s (%d × %s)%s", x.Name, x.Column, x.Dim, x.Element, dropped)
	g := newGrid()
	for _, gen := range x.Generations {
		g.add(fmt.Sprintf("generation %d", gen.Number), gen.State)
	}
	g.add("frontier", strings.TrimSpace(x.Frontier.Requested+" "+x.Frontier.Completed))
	g.add("baseline", plural(len(x.Baseline.Instants), "instant"))
	for _, k := range slices.Sorted(maps.Keys(x.Options)) {
		g.add(k, x.Options[k])
	}
	var bytes int64
	files := s.Live(x.Name)
	for _, f := range files {
		bytes += f.Size
	}
	g.add("files", fmt.Sprintf("%d, %s", len(files), size(bytes)))
	g.print(a, "  ")
}
