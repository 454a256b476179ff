package mdt

import (
	"fmt"

	"tidemark/internal/storage"
)

// NotPaused refuses, as storage.ErrRefused, to write to the indexes of a table that an operator has paused. st may be nil: where there is
// no state nobody has paused anything.
func NotPaused(place Place, st *State) error {
	if st == nil || !st.Paused {
		return nil
	}
	return &storage.Error{Op: "write to the indexes of", Path: place.Store.URL(), Hint: "tidemark resume ends that",
		Err: fmt.Errorf("paused by an operator: %w", storage.ErrRefused)}
}
