package sink

import (
	"context"
	"fmt"

	"tidemark/internal/storage"
)

// underLock runs fn, the steps 5 to 7 of a commit, while Config.Lock is held, and gives it back. Without one it just runs fn. An error of
// the lock means that fn did not run. turn is held.
func (s *Sink) underLock(ctx context.Context, fn func() error) (ran bool, err error) {
	if s.cfg.Lock == nil {
		return true, fn()
	}
	held, err := s.cfg.Lock.Lock(ctx)
	if err != nil {
		return false, fmt.Errorf("lock table: %w", err)
	}
	s.holding = held
	defer func() {
		s.holding = nil
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
		defer cancel()
		if err := held.Unlock(ctx); err != nil {
			s.cfg.LockTrouble(err) // the commit's own outcome does not depend on it
		}
	}()
	return true, fn()
}

// stillLocked says, right before the commit point, that the lock is certainly held; nil without one. lock.ErrLost makes the commit redo.
func (s *Sink) stillLocked(ctx context.Context) error {
	if s.holding == nil {
		return nil
	}
	if err := s.holding.Check(ctx); err != nil {
		return &storage.Error{Op: "commit", Path: s.place.MDTDir, Err: err, Hint: "run the same command again"}
	}
	return nil
}
