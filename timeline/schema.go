package timeline

import (
	"context"
	"fmt"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
)

// TableSchema returns the table's Avro schema, without meta columns, in the snapshot that ends at the completion time at
// ("" = the newest): that of the newest data write which may change it and carries a usable one, else the schema of the
// table's creation, else the one that the newest table service carries: it changes none, and may be all that the archiver left.
// Without any it is storage.ErrNotFound; the caller may then look into a data file.
//
// Commits with an empty or null schema (dropped partitions, deletes) are passed over. A damaged commit is storage.ErrCorrupt,
// since it may have changed the schema.
func TableSchema(ctx context.Context, st storage.Store, dir string, p *Properties, tl *Timeline, at string) (string, error) {
	return schemaAt(st, p, tl, at, func(inst Instant) (carried, error) {
		m, err := ReadCommit(ctx, st, dir, p, inst)
		if err != nil {
			return carried{}, err
		}
		return m.carriedSchema(), nil
	})
}

func schemaAt(st storage.Store, p *Properties, tl *Timeline, at string, of func(Instant) (carried, error)) (string, error) {
	service := ""
	writes := tl.Writes()
	for i := len(writes) - 1; i >= 0; i-- {
		if at != "" && writes[i].Completed > at {
			continue
		}
		c, err := of(writes[i])
		if err != nil {
			return "", fmt.Errorf("find table schema: %w", err)
		}
		if c.text != "" && !c.service {
			return c.text, nil
		}
		if service == "" {
			service = c.text
		}
	}
	if usable(p.CreateSchema) {
		return p.CreateSchema, nil
	}
	if service != "" {
		return service, nil
	}
	return "", &storage.Error{Op: "find table schema", Path: st.URL(), Hint: "write to the table once, so that a commit carries its schema",
		Err: fmt.Errorf("neither a commit nor the properties have one: %w", storage.ErrNotFound)}
}

// carried is the schema that a commit carries.
type carried struct {
	text    string // "" if it has none that can be used
	service bool   // of a table service, which may know an old one
}

func (m *CommitMetadata) carriedSchema() carried {
	c := carried{service: !m.mayChangeSchema()}
	if text := m.Extra["schema"]; usable(text) {
		c.text = text
	}
	return c
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
