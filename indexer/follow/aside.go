package follow

import (
	"context"
	"errors"
	"fmt"

	"tidemark/indexer"
	"tidemark/internal/storage"
)

// quarantine counts a failure of a commit and sets the commit aside when it has failed too often: its bytes are not what they must be,
// or of a kind that is not handled, so that trying again leads nowhere. A store that fails says nothing about a commit. The
// frontier stays where it is (design, decision 16).
func (t *followed) quarantine(ctx context.Context, err error) error {
	var at *indexer.InstantError
	if !errors.As(err, &at) || !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
		return nil
	}
	t.attempts[at.Requested]++
	n, most := t.attempts[at.Requested], t.maxAttempts()
	if most < 0 || n < most {
		return nil
	}
	if err := t.upkeep.SetAside(ctx, at.Requested, at.Error(), n); err != nil {
		return fmt.Errorf("set commit %s aside: %w", at.Requested, err)
	}
	delete(t.attempts, at.Requested)
	t.f.cfg.Log.Error("commit set aside", "table", t.cfg.name(), "instant", at.Requested, "attempts", n, "error", err)
	return nil
}
