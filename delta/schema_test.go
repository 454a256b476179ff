package delta

import (
	"errors"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

func TestCanonicalSchema(t *testing.T) {
	t.Parallel()
	layoutA := strings.TrimSpace(string(testkit.File(t, "golden/vector-index/mdt-record-schema-layout-A.json")))
	layoutB := string(testkit.File(t, "golden/vector-index/mdt-record-schema-layout-B.json"))
	if got := ownCanonical(); got != layoutA {
		t.Errorf("got\n%s\nwant\n%s", got, layoutA)
	}
	for name, c := range map[string]struct {
		text string
		kind error
	}{
		"ours":              {SchemaJSON, nil},
		"canonical":         {layoutA, nil},
		"with other docs":   {strings.Replace(SchemaJSON, `"doc":""`, `"doc":"x"`, 1), nil},
		"layout B":          {layoutB, storage.ErrUnsupported},
		"other field order": {strings.Replace(SchemaJSON, `{"name":"key","type":"string"},{"name":"type","type":"int"}`, `{"name":"type","type":"int"},{"name":"key","type":"string"}`, 1), storage.ErrUnsupported},
		"no JSON":           {"{", storage.ErrCorrupt},
		"a number":          {"1", storage.ErrCorrupt},
		"too deep":          {strings.Repeat("[", 100) + `"int"` + strings.Repeat("]", 100), storage.ErrCorrupt},
	} {
		if err := CheckSchema(c.text); !errors.Is(err, c.kind) || (c.kind == nil && err != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := `{"type":"record","name":"R","fields":[{"name":"e","type":{"type":"enum","name":"E","symbols":["A"]}},{"name":"f","type":{"type":"fixed","name":"F","namespace":"n","size":4}},{"name":"m","type":{"type":"map","values":{"type":"int"}}}]}`
	want := `{"name":"R","type":"record","fields":[{"name":"e","type":{"name":"E","type":"enum","symbols":["A"]}},{"name":"f","type":{"name":"n.F","type":"fixed","size":4}},{"name":"m","type":{"type":"map","values":"int"}}]}`
	if got, err := canonical(other); err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
}
