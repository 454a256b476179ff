package table

import (
	"fmt"
	"strconv"
	"strings"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
)

// virtualKey prepares computing record keys from their columns, for tables that do not store them (docs/format/slices.md, "Keys that
// are not stored").
func (t *Table) virtualKey(p *plan) error {
	refuse := func(format string, args ...any) error {
		return &storage.Error{Op: "read table", Path: t.Props.Name, Hint: "only tables with hoodie.populate.meta.fields=true or with simple key columns are read",
			Err: fmt.Errorf("virtual keys: "+format+": %w", append(args, storage.ErrUnsupported)...)}
	}
	if len(t.Props.RecordKeys) == 0 {
		return refuse("the table has no record key")
	}
	if t.Schema == nil {
		return refuse("the table's schema is not known")
	}
	for _, name := range t.Props.RecordKeys {
		f, ok := t.Schema.Field(name)
		if !ok {
			return refuse("key column %s does not exist", name)
		}
		switch {
		case f.Logical != "":
			return refuse("key column %s of type %s", name, f.Logical)
		case f.Type != avrox.String && f.Type != avrox.Int && f.Type != avrox.Long && f.Type != avrox.Boolean:
			return refuse("key column %s of type %s", name, f.Type)
		}
		p.keys = append(p.keys, p.add(name))
	}
	if len(p.keys) == 1 && isComplex(t.Props.KeyGenerator) && t.Props.Version < 9 {
		return refuse("key generator %s with one field has two encodings before table version 9", t.Props.KeyGenerator)
	}
	return nil
}

// isComplex says whether a generator writes "field:value" also for one field: complex ones; simple, timestamp, custom and
// non-partitioned ones write the bare value.
func isComplex(generator string) bool {
	g := strings.ToUpper(generator)
	return strings.HasPrefix(g[strings.LastIndexByte(g, '.')+1:], "COMPLEX")
}

// makeKey computes the key of a row without a stored one.
func (p *plan) makeKey(vals []any) (string, error) {
	if len(p.keys) == 1 && !isComplex(p.props.KeyGenerator) {
		v := vals[p.keys[0]]
		if v == nil || v == "" {
			return "", fmt.Errorf("row without a key: column %s is empty: %w", p.names[p.keys[0]], storage.ErrCorrupt)
		}
		return keyText(v)
	}
	var parts []string
	empty := true
	for _, i := range p.keys {
		text := "__null__"
		switch v := vals[i]; v {
		case nil:
		case "":
			text = "__empty__"
		default:
			var err error
			if text, err = keyText(v); err != nil {
				return "", err
			}
			empty = false
		}
		parts = append(parts, p.names[i]+":"+text)
	}
	if empty {
		return "", fmt.Errorf("row without a key: all key columns are empty: %w", storage.ErrCorrupt)
	}
	return strings.Join(parts, ","), nil
}

func keyText(v any) (string, error) {
	switch x := v.(type) {
	case string:
		return x, nil
	case int32:
		return strconv.FormatInt(int64(x), 10), nil
	case int64:
		return strconv.FormatInt(x, 10), nil
	case bool:
		return strconv.FormatBool(x), nil
	}
	return "", fmt.Errorf("key value of type %T: %w", v, storage.ErrUnsupported)
}

// keyOf returns the record key of a row given by its values.
func (p *plan) keyOf(vals []any) (string, error) {
	if p.key < 0 {
		return p.makeKey(vals)
	}
	key, ok := vals[p.key].(string)
	if !ok {
		return "", fmt.Errorf("row without %s: %w", keyColumn, storage.ErrCorrupt)
	}
	return key, nil
}
