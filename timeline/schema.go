package timeline

import (
	"context"
	"fmt"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
)

// TableSchema returns the table's Avro schema, without meta columns, in the snapshot that ends at the completion time at
// ("" = the newest): that of the newest data write which may change it and carries a usable one, else the schema of the
// table's creation. Without either it is storage.ErrNotFound; the caller may then look into a data file.
//
// Table services and commits with an empty or null schema (dropped partitions, deletes) are passed over. A damaged commit
// is storage.ErrCorrupt, since it may have changed the schema.
func TableSchema(ctx context.Context, st storage.Store, dir string, p *Properties, tl *Timeline, at string) (string, error) {
	return schemaAt(st, p, tl, at, func(inst Instant) (string, error) {
		m, err := ReadCommit(ctx, st, dir, p, inst)
		if err != nil {
			return "", err
		}
		return m.carriedSchema(), nil
	})
}

func schemaAt(st storage.Store, p *Properties, tl *Timeline, at string, carried func(Instant) (string, error)) (string, error) {
	writes := tl.Writes()
	for i := len(writes) - 1; i >= 0; i-- {
		if at != "" && writes[i].Completed > at {
			continue
		}
		text, err := carried(writes[i])
		if err != nil {
			return "", fmt.Errorf("find table schema: %w", err)
		}
		if text != "" {
			return text, nil
		}
	}
	if usable(p.CreateSchema) {
		return p.CreateSchema, nil
	}
	return "", &storage.Error{Op: "find table schema", Path: st.URL(), Hint: "write to the table once, so that a commit carries its schema",
		Err: fmt.Errorf("neither a commit nor the properties have one: %w", storage.ErrNotFound)}
}

// carriedSchema returns the table's schema that the commit carries, "" if it has none that counts.
func (m *CommitMetadata) carriedSchema() string {
	if text := m.Extra["schema"]; m.mayChangeSchema() && usable(text) {
		return text
	}
	return ""
}

func (m *CommitMetadata) mayChangeSchema() bool {
	switch m.Operation {
	case "CLUSTER", "COMPACT", "LOG_COMPACT", "INDEX":
		return false
	}
	return true
}

// usable says whether a schema text is a record with fields.
func usable(text string) bool {
	if text == "" {
		return false
	}
	s, err := avrox.ParseSchema(text)
	return err == nil && len(s.Fields()) > 0
}
