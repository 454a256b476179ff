package storage_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/mem"
)

func TestErrorAndHint(t *testing.T) {
	t.Parallel()
	inner := &storage.Error{Op: "read", Path: "a/b", Err: storage.ErrNotFound, Hint: "look there"}
	err := fmt.Errorf("open table: %w", &storage.Error{Op: "load", Err: errors.Join(errors.New("other"), inner)})
	if !errors.Is(err, storage.ErrNotFound) || storage.Hint(err) != "look there" {
		t.Errorf("%v, hint %q", err, storage.Hint(err))
	}
	if got := inner.Error(); got != "read a/b: not found" {
		t.Errorf("got %q", got)
	}
	if storage.Hint(nil) != "" || storage.Hint(errors.New("x")) != "" {
		t.Error("hint out of nothing")
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	st := mem.New("t")
	g := storage.NewGuard(st, storage.AllowOwn(".hoodie/.tidemark", ".hoodie/metadata"))
	for p, ok := range map[string]bool{
		".hoodie/.tidemark/state.json":                                               true,
		".hoodie/.tidemark/probe/1":                                                  true,
		".hoodie/metadata/vector_index_x/.vector-index-0000-0_1.log.1_7427-1-0":      true,
		".hoodie/metadata/.hoodie/timeline/1_2.deltacommit":                          true,
		".hoodie/hoodie.properties":                                                  false,
		".hoodie/metadata/.hoodie/hoodie.properties":                                 false,
		".hoodie/timeline/1_2.deltacommit":                                           false,
		".hoodie/metadata/.hoodie/timeline/1_2.commit":                               false,
		".hoodie/metadata/.hoodie/timeline/1.deltacommit.requested":                  false,
		".hoodie/metadata/.hoodie/timeline/1.deltacommit.inflight":                   false,
		".hoodie/metadata/.hoodie/timeline/history/1_2.deltacommit":                  false,
		".hoodie/metadata/files/x":                                                   false,
		".hoodie/metadata/record_index/x":                                            false,
		".hoodie/metadata/vector_index_x/.hoodie_partition_metadata":                 false,
		".hoodie/metadata/vector_index_x/sub/x":                                      false,
		".hoodie/metadata/vector_index_":                                             false,
		".hoodie/.index_defs/index.json":                                             false,
		"part=1/f.parquet":                                                           false,
		"../x":                                                                       false,
		".hoodie/.tidemark/../hoodie.properties":                                     false,
		".hoodie/.tidemark":                                                          false,
		".hoodie/metadata/vector_index_x/vector-index-0000-0_7427-1-0_1.hfile":       true,
		".hoodie/metadata/other/vector_index_x/vector-index-0000-0_7427-1-0_1.hfile": false,
	} {
		_, create := g.Create(t.Context(), p, nil)
		_, replace := g.Replace(t.Context(), p, nil, "")
		_, from := g.CreateFrom(t.Context(), p, -1, func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("")), nil
		})
		del := g.Delete(t.Context(), p)
		for what, err := range map[string]error{"create": create, "create from": from, "replace": replace, "delete": del} {
			if refused := errors.Is(err, storage.ErrRefused); refused == ok {
				t.Errorf("%s %s: %v", what, p, err)
			}
		}
	}
	if g.Writes() == 0 || g.Refused() == 0 {
		t.Errorf("counted %d writes, %d refusals", g.Writes(), g.Refused())
	}
}
