package timeline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
)

const (
	// A completed file may be short for a moment on stores without atomic create, so it is read again before it is
	// called damaged.
	readAttempts = 3
	readPause    = 100 * time.Millisecond
)

// read returns a timeline file whose content parse accepts, and its SHA-256. Content that stays unacceptable is
// storage.ErrCorrupt, naming the file. A file that is gone is storage.ErrNotFound: archived or rolled back since the
// listing, so the timeline must be loaded again.
func read[T any](ctx context.Context, st storage.Store, file string, parse func([]byte) (T, error)) (T, [32]byte, error) {
	var none T
	for attempt := 1; ; attempt++ {
		b, _, err := st.ReadFile(ctx, file)
		if err != nil {
			hint := ""
			if errors.Is(err, storage.ErrNotFound) {
				hint = "the timeline has changed since it was listed: try again"
			}
			return none, [32]byte{}, &storage.Error{Op: "read instant", Path: file, Err: err, Hint: hint}
		}
		v, err := parse(b)
		if err == nil {
			return v, sha256.Sum256(b), nil
		}
		if attempt == readAttempts || !errors.Is(err, storage.ErrCorrupt) {
			return none, [32]byte{}, &storage.Error{Op: "read instant", Path: file, Err: err,
				Hint: "a crashed writer may have left it: repair or roll back that instant with Hudi's tools"}
		}
		if err := pause(ctx, readPause); err != nil {
			return none, [32]byte{}, err
		}
	}
}

// one decodes an Avro container that holds exactly one record, as every timeline file does, with at least these fields.
func one(b []byte, fields ...string) (avrox.Record, error) {
	_, records, err := avrox.ReadContainer(b)
	if err != nil {
		return nil, err
	}
	if len(records) != 1 {
		return nil, damaged("%d records instead of one", len(records))
	}
	return records[0], has(records[0], "metadata", fields...)
}

// readOne reads a timeline file of one record with those fields and turns it into a T.
func readOne[T any](ctx context.Context, st storage.Store, dir string, p *Properties, file string, fields []string, convert func(avrox.Record) T) (T, error) {
	v, _, err := read(ctx, st, path.Join(p.TimelineDir(dir), file), func(b []byte) (T, error) {
		rec, err := one(b, fields...)
		if err != nil {
			var none T
			return none, err
		}
		return convert(rec), nil
	})
	return v, err
}

func isAvro(b []byte) bool { return bytes.HasPrefix(b, avrox.Magic) }

func wrongAction(inst Instant, want string) error {
	return &storage.Error{Op: "read instant", Path: inst.File,
		Err: fmt.Errorf("%s %s is not %s: %w", inst.State, inst.Action, want, storage.ErrUnsupported)}
}

// Small helpers over Avro values: the zero value where a field is missing or null.

func str(r avrox.Record, name string) string { v, _ := r.Str(name); return v }

func num(r avrox.Record, name string) int64 { v, _ := r.Long(name); return v }

func texts(v any) []string {
	items, _ := v.([]any)
	var out []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// names returns the last parts of paths: absolute paths in metadata say where the table was written, not where it is.
func names(v any) []string {
	out := texts(v)
	for i, s := range out {
		out[i] = path.Base(s)
	}
	return out
}

func records(v any) []avrox.Record {
	items, _ := v.([]any)
	var out []avrox.Record
	for _, item := range items {
		if r, ok := item.(avrox.Record); ok {
			out = append(out, r)
		}
	}
	return out
}

// base is the last part of a path; empty stays empty.
func base(file string) string {
	if file == "" {
		return ""
	}
	return path.Base(file)
}

func refs(v any) []InstantRef {
	var out []InstantRef
	for _, r := range records(v) {
		out = append(out, InstantRef{Requested: str(r, "commitTime"), Action: Action(str(r, "action"))})
	}
	return out
}

// each calls fn for the members of a map of records, in key order.
func each(r avrox.Record, name string, fn func(key string, member avrox.Record)) {
	m, _ := r.Map(name)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if member, ok := m[k].(avrox.Record); ok {
			fn(k, member)
		}
	}
}
