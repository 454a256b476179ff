package sink

import (
	"context"
	"errors"
	"fmt"

	"tidemark/internal/storage"
)

// probeContent is what the probe object holds for ever. It is never deleted: a name that is there proves most.
const probeContent = "tidemark checks here that this store never overwrites\n"

// staleTag is a tag that no store gives to the probe's content.
const staleTag = "0000000000000000000000000000000000000000000000000000000000000000"

// probe checks both primitives before the first write on a store: the same name cannot be created twice, and nothing can
// be replaced with a stale tag or as if it were absent. A store that accepts either is refused.
func (s *Sink) probe(ctx context.Context) error {
	path := s.place.StateDir + "/probe"
	weak := func(what string) error {
		return &storage.Error{Op: "probe", Path: path, Err: fmt.Errorf("%s: %w", what, ErrWeakStore),
			Hint: "use a store with create-if-absent and compare-and-swap, or another place for the index"}
	}
	_, err := s.guard.Create(ctx, path, []byte(probeContent))
	if err == nil {
		_, err = s.guard.Create(ctx, path, []byte(probeContent))
		if err == nil {
			return weak("a name was created twice")
		}
	}
	if !errors.Is(err, storage.ErrExists) {
		return fmt.Errorf("probe store: %w", err)
	}
	for _, tag := range []string{staleTag, ""} {
		_, err := s.guard.Replace(ctx, path, []byte(probeContent), tag)
		if err == nil {
			return weak("a replace with a stale tag was accepted")
		}
		if !errors.Is(err, storage.ErrConflict) {
			return fmt.Errorf("probe store: %w", err)
		}
	}
	return nil
}
