package delta

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"tidemark/internal/storage"
)

// SchemaJSON is the Avro schema of every record value: layout A of HoodieMetadataRecord with Hudi's five meta
// fields in front. It is the exact text that Hudi 1.2.0 put into the golden files (HFile info entry "schema"
// and log block header SCHEMA), so that a text comparison is enough to know the layout.
//
//go:embed schema.json
var SchemaJSON string

// CheckSchema refuses a writer's schema that is not layout A: both are compared in Avro's parsing canonical form, meta
// fields left out (docs/format/records.md). Files of another layout can be decoded but must not be added to.
func CheckSchema(text string) error {
	if text == SchemaJSON {
		return nil
	}
	got, err := canonical(text)
	if err != nil {
		return fmt.Errorf("read index record schema: %w", err)
	}
	if want := ownCanonical(); got != want {
		return fmt.Errorf("index records are written with another schema than layout A: %w", storage.ErrUnsupported)
	}
	return nil
}

var ownCanonical = sync.OnceValue(func() string {
	s, err := canonical(SchemaJSON)
	if err != nil {
		panic(err) // the embedded text is ours
	}
	return s
})

// maxSchemaDepth bounds the nesting of a schema text.
const maxSchemaDepth = 64

// canonical returns the parsing canonical form of a record schema without Hudi's meta fields: full names, no docs and no
// defaults, attributes in a fixed order, no blanks.
func canonical(text string) (string, error) {
	var raw any
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return "", fmt.Errorf("%w: %w", err, storage.ErrCorrupt)
	}
	var b strings.Builder
	if err := appendCanonical(&b, raw, "", 0); err != nil {
		return "", err
	}
	return b.String(), nil
}

var primitives = map[string]bool{
	"null": true, "boolean": true, "int": true, "long": true, "float": true, "double": true, "bytes": true, "string": true,
}

func appendCanonical(b *strings.Builder, node any, space string, depth int) error {
	bad := func(what string) error { return fmt.Errorf("schema: %s: %w", what, storage.ErrCorrupt) }
	if depth > maxSchemaDepth {
		return bad("nested too deeply")
	}
	switch n := node.(type) {
	case string:
		if !primitives[n] {
			n = fullName(n, space)
		}
		b.WriteString(strconv.Quote(n))
	case []any:
		b.WriteByte('[')
		for i, branch := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := appendCanonical(b, branch, space, depth+1); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case map[string]any:
		return appendComplex(b, n, space, depth)
	default:
		return bad("neither a name, a list nor an object")
	}
	return nil
}

func fullName(name, space string) string {
	if space == "" || strings.Contains(name, ".") {
		return name
	}
	return space + "." + name
}

func appendComplex(b *strings.Builder, n map[string]any, space string, depth int) error {
	typ, ok := n["type"].(string)
	if !ok {
		// {"type": {…}} and {"type": […]} stand for what is inside.
		return appendCanonical(b, n["type"], space, depth+1)
	}
	if primitives[typ] {
		b.WriteString(strconv.Quote(typ))
		return nil
	}
	b.WriteByte('{')
	if name, named := n["name"].(string); named {
		if s, ok := n["namespace"].(string); ok {
			space = s
		}
		name = fullName(name, space)
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			space = name[:i]
		}
		fmt.Fprintf(b, `"name":%q,`, name)
	}
	fmt.Fprintf(b, `"type":%q`, typ)
	if fields, ok := n["fields"].([]any); ok {
		b.WriteString(`,"fields":[`)
		first := true
		for _, f := range fields {
			field, _ := f.(map[string]any)
			name, _ := field["name"].(string)
			if depth == 0 && strings.HasPrefix(name, "_hoodie_") {
				continue
			}
			if !first {
				b.WriteByte(',')
			}
			first = false
			fmt.Fprintf(b, `{"name":%q,"type":`, name)
			if err := appendCanonical(b, field["type"], space, depth+1); err != nil {
				return err
			}
			b.WriteByte('}')
		}
		b.WriteByte(']')
	}
	if symbols, ok := n["symbols"].([]any); ok {
		list, _ := json.Marshal(symbols)
		b.WriteString(`,"symbols":`)
		b.Write(list)
	}
	for _, key := range []string{"items", "values"} {
		if inner, ok := n[key]; ok {
			fmt.Fprintf(b, `,%q:`, key)
			if err := appendCanonical(b, inner, space, depth+1); err != nil {
				return err
			}
		}
	}
	if size, ok := n["size"].(float64); ok {
		fmt.Fprintf(b, `,"size":%d`, int64(size))
	}
	b.WriteByte('}')
	return nil
}
