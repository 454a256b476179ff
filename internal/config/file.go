package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a configuration file; a table takes about 100 bytes.
const maxFile = 4 << 20

// file is what a configuration file says: values by key, and its tables.
type file struct {
	name   string
	values map[string]any
	lines  map[string]int
	tables []Table
	rows   []map[string]int // lines of the tables' settings, by key
	found  bool             // it has a list of tables
	faulty map[string]bool  // keys whose values cannot be used
	bad    []error
}

// problem notes what is wrong at a node.
func (f *file) problem(n *yaml.Node, format string, args ...any) {
	f.bad = append(f.bad, fmt.Errorf("%s:%d: %s", f.name, n.Line, fmt.Sprintf(format, args...)))
}

// readFile reads the bytes of a file. What is wrong is in bad, all of it.
func readFile(name string, b []byte) *file {
	f := &file{name: name, values: map[string]any{}, lines: map[string]int{}, faulty: map[string]bool{}}
	if len(b) > maxFile {
		f.bad = append(f.bad, fmt.Errorf("%s: it has more than %d bytes", name, maxFile))
		return f
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return f // empty, or nothing but comments
	} else if err != nil {
		f.bad = append(f.bad, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: ")))
		return f
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		f.problem(&second, "a second document begins here; only one is read")
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return f
	}
	f.object(root, reflect.TypeFor[Config](), "", func(key string, v any, line int) {
		f.values[key], f.lines[key] = v, line
	})
	return f
}

// object reads a mapping as a struct; leaves are handed to set by key.
func (f *file) object(n *yaml.Node, t reflect.Type, prefix string, set func(key string, v any, line int)) {
	what := strings.TrimSuffix(prefix, ".")
	if what == "" {
		what = "the file"
	}
	if n.Kind != yaml.MappingNode {
		f.problem(n, "%s must be settings (key: value), not %s", what, kindOfNode(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		key := prefix + k.Value
		if seen[k.Value] {
			f.problem(k, "%s is given twice", key)
			continue
		}
		seen[k.Value] = true
		sf, known := fieldOf(t, k.Value)
		switch {
		case !known:
			f.problem(k, "unknown key %s%s", key, f.nearest(t, k.Value))
		case v.Kind == yaml.AliasNode:
			f.problem(v, "%s: aliases (*name) are not followed; write the value", key)
		case sf.Type == reflect.TypeFor[[]Table]():
			f.list(v)
		case kindOf(sf.Type) == "":
			if v.Kind != yaml.ScalarNode || v.Tag != "!!null" { // a section of nothing but comments
				f.object(v, sf.Type, key+".", set)
			}
		default:
			before := len(f.bad)
			if x, ok := f.leaf(v, sf.Type, key); ok {
				set(key, x, v.Line)
			}
			if len(f.bad) > before {
				f.faulty[key] = true
			}
		}
	}
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for f := range fields(t) {
		if f.Tag.Get("key") == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// leaf reads one value. A key without a value keeps its default.
func (f *file) leaf(n *yaml.Node, t reflect.Type, key string) (any, bool) {
	kind := kindOf(t)
	if kind == "list" {
		if n.Kind == yaml.SequenceNode {
			out := []string{}
			for _, item := range n.Content {
				if item.Kind != yaml.ScalarNode {
					f.problem(item, "%s: an entry must be a text, not %s", key, kindOfNode(item))
					continue
				}
				out = append(out, item.Value)
			}
			return out, true
		}
		if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
			return []string{n.Value}, true
		}
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil, false
	}
	if n.Kind != yaml.ScalarNode || kind == "list" {
		f.problem(n, "%s must be a %s, not %s", key, kind, kindOfNode(n))
		return nil, false
	}
	wants := map[string]string{"yes or no": "!!bool", "number": "!!int"}
	if want := wants[kind]; want != "" && n.Tag != want {
		f.problem(n, "%s must be a %s, not %q", key, kind, n.Value)
		return nil, false
	}
	x, err := parse(t, n.Value)
	if err != nil {
		f.problem(n, "%s: %v", key, err)
		return nil, false
	}
	return x, true
}

// list reads the list of tables.
func (f *file) list(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		f.problem(n, "tables must be a list (- path: ...), not %s", kindOfNode(n))
		return
	}
	f.found = true
	for i, item := range n.Content {
		key := fmt.Sprintf("tables[%d].", i)
		t, lines := Table{}, map[string]int{"path": item.Line}
		if item.Kind == yaml.ScalarNode {
			t.Path = item.Value
		} else {
			f.object(item, reflect.TypeFor[Table](), key, func(k string, v any, line int) {
				x, _ := field(reflect.ValueOf(&t).Elem(), strings.TrimPrefix(k, key))
				x.Set(reflect.ValueOf(v))
				lines[strings.TrimPrefix(k, key)] = line
			})
		}
		if t.Path == "" && item.Kind != yaml.AliasNode {
			f.problem(item, "%spath is missing", key)
		}
		f.tables, f.rows = append(f.tables, t), append(f.rows, lines)
	}
}

func kindOfNode(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "settings"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	return fmt.Sprintf("%q", n.Value)
}

// nearest proposes a key that is spelled alike.
func (f *file) nearest(t reflect.Type, key string) string {
	best, at := 3, ""
	var all []string
	for sf := range fields(t) {
		name := sf.Tag.Get("key")
		all = append(all, name)
		if d := distance(strings.ToLower(key), name); d < best {
			best, at = d, name
		}
	}
	if at != "" {
		return fmt.Sprintf("; did you mean %s?", at)
	}
	slices.Sort(all)
	return "; there are " + strings.Join(all, ", ")
}

// distance is how many letters must be changed, added or taken out.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			last, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, last+cost)
		}
	}
	return row[len(b)]
}
