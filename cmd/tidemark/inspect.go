package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tidemark/internal/storage"
	"tidemark/internal/storage/open"
	"tidemark/timeline"
)

// inspected is one file that is to be shown.
type inspected struct {
	store storage.Store
	path  string // relative to the store
	name  string // last element
	size  int64
	head  []byte // its first bytes
	tail  []byte // its last bytes
	limit int    // records to show to people
}

func (f inspected) source() storage.Source { return storage.FileSource(f.store, f.path, f.size) }

// content reads the whole file.
func (f inspected) content(ctx context.Context) ([]byte, error) {
	b, _, err := f.store.ReadFile(ctx, f.path)
	return b, err
}

func (a *app) inspectCommand() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show any file of Hudi's or ours",
		Long: `Shows a file of a Hudi table or of an index: HFile, log file, timeline instant, Parquet base file,
hoodie.properties, state.json. With --json an HFile and the HFile blocks of a log give one line a record: "key" and
"value" are the stored bytes in hex.`,
		Example: "  tidemark inspect /data/t/.hoodie/.tidemark/state.json\n" +
			"  tidemark inspect /data/t/.hoodie/hoodie.properties --json",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.inspect(c.Context(), args[0], limit) },
	}
	c.Flags().IntVar(&limit, "limit", 20, "records to show to people, 0 for all")
	return c
}

// inspect finds out by content and name what a file is, and shows it.
func (a *app) inspect(ctx context.Context, url string, limit int) error {
	f, err := openFile(ctx, url)
	if err != nil {
		return err
	}
	f.limit = limit
	is := func(magic string) bool { return bytes.HasPrefix(f.head, []byte(magic)) }
	switch {
	case f.name == "hoodie.properties" || f.name == "hoodie.properties.backup":
		err = a.inspectProperties(ctx, f)
	case f.size == 0:
		err = a.inspectEmpty(f)
	case is("Obj\x01"):
		err = a.inspectAvro(ctx, f)
	case is("PAR1"):
		err = a.inspectParquet(ctx, f)
	case is("#HUDI#"), strings.Contains(f.name, ".log."):
		err = a.inspectLog(ctx, f)
	case is("DATABLK*"), strings.HasSuffix(f.name, ".hfile"), bytes.Contains(f.tail, []byte("TRABLK\"$")):
		err = a.inspectHFile(ctx, f)
	case is("{"):
		err = a.inspectJSON(ctx, f)
	default:
		err = &storage.Error{Op: "inspect", Path: f.name, Err: fmt.Errorf("no known kind of file: %w", storage.ErrUnsupported),
			Hint: "give an HFile, a log file, a timeline instant, a Parquet file, hoodie.properties or state.json"}
	}
	if err != nil {
		return fmt.Errorf("inspect %s: %w", url, err)
	}
	return nil
}

// trailerSize is the length of an HFile's trailer, whose magic stands at its front.
const trailerSize = 4096

// openFile opens the file that a path or URL names and reads its ends.
func openFile(ctx context.Context, url string) (inspected, error) {
	dir, name := ".", url
	if at := strings.LastIndexByte(url, '/'); at >= 0 {
		dir, name = url[:at], url[at+1:]
	}
	if dir == "" || strings.HasSuffix(dir, ":/") {
		dir += "/"
	}
	st, err := open.Open(ctx, dir)
	if err != nil {
		return inspected{}, err
	}
	info, err := st.Stat(ctx, name)
	if err != nil {
		return inspected{}, fmt.Errorf("inspect %s: %w", url, err)
	}
	if info.IsDir || name == "" {
		return inspected{}, &storage.Error{Op: "inspect", Path: url, Err: fmt.Errorf("a folder: %w", storage.ErrUnsupported),
			Hint: "give a file; 'tidemark status' looks at a table"}
	}
	f := inspected{store: st, path: name, name: name, size: info.Size}
	if f.head, err = st.ReadRange(ctx, name, 0, min(8, f.size)); err != nil {
		return inspected{}, err
	}
	n := min(trailerSize, f.size)
	f.tail, err = st.ReadRange(ctx, name, f.size-n, n)
	return f, err
}

// inspectEmpty shows a file without content: right for an instant that is not completed, damage elsewhere.
func (a *app) inspectEmpty(f inspected) error {
	if !strings.HasSuffix(f.name, ".requested") && !strings.HasSuffix(f.name, ".inflight") {
		return &storage.Error{Op: "read", Path: f.name, Err: fmt.Errorf("file is empty: %w", storage.ErrCorrupt),
			Hint: "restore it from a copy; only requested and inflight instants may be empty"}
	}
	if a.json {
		return a.object(map[string]any{"file": f.name, "kind": "empty"})
	}
	a.say("%s: empty, as instants that are not completed may be", f.name)
	return nil
}

func (a *app) inspectProperties(ctx context.Context, f inspected) error {
	p, err := timeline.LoadProperties(ctx, f.store, "")
	if err != nil {
		return err
	}
	if a.json {
		return a.object(p.Raw)
	}
	a.say("table %s, version %d, %s", p.Name, p.Version, p.Type)
	keys := make([]string, 0, len(p.Raw))
	for k := range p.Raw {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	g := newGrid()
	for _, k := range keys {
		g.add(k, p.Raw[k])
	}
	g.print(a, "  ")
	return nil
}

// inspectJSON shows a JSON object: the state object with a summary, anything else as it is.
func (a *app) inspectJSON(ctx context.Context, f inspected) error {
	b, err := f.content(ctx)
	if err != nil {
		return err
	}
	if !json.Valid(b) {
		return &storage.Error{Op: "read", Path: f.name, Err: fmt.Errorf("not whole JSON: %w", storage.ErrCorrupt),
			Hint: "the file is cut or damaged; restore it from a copy"}
	}
	if a.json {
		var line bytes.Buffer
		if err := json.Compact(&line, b); err != nil {
			return err
		}
		line.WriteByte('\n')
		_, err = a.out.Write(line.Bytes())
		return err
	}
	if path.Base(f.path) == "state.json" {
		return a.showState(b)
	}
	var text bytes.Buffer
	if err := json.Indent(&text, b, "", "  "); err != nil {
		return err
	}
	for _, line := range strings.Split(strings.TrimSpace(text.String()), "\n") {
		a.say("%s", line)
	}
	return nil
}
