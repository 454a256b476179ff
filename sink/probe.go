package sink

import (
	"context"
	"errors"
	"fmt"

	"tidemark/internal/storage"
	"tidemark/internal/storage/retry"
)

// probeContent is what the probe object holds for ever. It is never deleted: a name that is there proves most.
const probeContent = "tidemark checks here that this store never overwrites\n"

// intruderContent is what the store must never take in its place. It differs: bytes that are the same would pass for a caller's own
// write whose answer was lost.
const intruderContent = "this store overwrote what tidemark had created\n"

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
		_, err = s.guard.Create(ctx, path, []byte(intruderContent))
		if err == nil {
			return weak("a name was created twice")
		}
	}
	if !errors.Is(err, storage.ErrExists) {
		return fmt.Errorf("probe store: %w", err)
	}
	for _, tag := range []string{staleTag, ""} {
		_, err := s.guard.Replace(ctx, path, []byte(intruderContent), tag)
		if errors.Is(err, retry.ErrUnknown) { // refused at last, but the first attempt's answer was lost: what is there decides
			there, _, readErr := s.guard.ReadFile(ctx, path)
			switch {
			case readErr != nil:
				return fmt.Errorf("probe store: %w", readErr)
			case string(there) != intruderContent:
				continue
			}
			err = nil
		}
		if err == nil {
			return weak("a replace with a stale tag was accepted")
		}
		if !errors.Is(err, storage.ErrConflict) {
			return fmt.Errorf("probe store: %w", err)
		}
	}
	return nil
}
