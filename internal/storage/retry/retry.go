// Package retry wraps a storage.Store and makes failed calls again. It is the only place that does.
//
// It owns waiting (exponential backoff with full jitter), the time one attempt and one call may take, and what a repeated
// write means. It refuses to know stores: an error says itself whether repeating helps (storage.Again). It may import storage
// only.
//
// Budgets: a call is repeated while its error says that it is worth it and Config.Budget lasts. WithBudget bounds what all calls of
// one intent, such as a commit, may lose together. No wait goes beyond the deadline of the caller's context.
//
// Invariant: a write whose outcome was unknown once is never reported as lost to somebody else when it was not. A name that is
// taken after that is compared with what was to be written: the same bytes are the caller's own, since names and contents of
// different intents differ.
package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"tidemark/internal/storage"
)

// Config bounds the repeating. The zero value works.
type Config struct {
	// First is the longest first wait; it doubles each time. Defaults to 100 ms.
	First time.Duration
	// Max is the longest wait. Defaults to 10 s.
	Max time.Duration
	// Budget is for how long a call is repeated at most. Defaults to 2 minutes.
	Budget time.Duration
	// Attempt is how long one attempt may take, beside the time for its bytes. Defaults to 1 minute.
	Attempt time.Duration
	// Rate is the slowest transfer that is waited for, bytes a second. Defaults to 256 KiB.
	Rate int64
	// Observe is told, before each wait, what went wrong and how long the wait is. It may be called by several goroutines at
	// once. Defaults to nobody.
	Observe func(err error, wait time.Duration)
}

func (c *Config) setDefaults() {
	if c.First <= 0 {
		c.First = 100 * time.Millisecond
	}
	if c.Max <= 0 {
		c.Max = 10 * time.Second
	}
	if c.Budget <= 0 {
		c.Budget = 2 * time.Minute
	}
	if c.Attempt <= 0 {
		c.Attempt = time.Minute
	}
	if c.Rate <= 0 {
		c.Rate = 256 << 10
	}
}

// Stats counts what a Store did.
type Stats struct {
	Calls    int64         // made by callers
	Attempts int64         // made on the wrapped store; the same number when nothing was repeated
	GaveUp   int64         // calls that failed although repeating might have helped
	Settled  int64         // writes found done by reading, after an outcome was unknown
	Waited   time.Duration // between attempts, over all calls
}

// Store repeats the calls of another store. See New.
type Store struct {
	inner storage.Store
	cfg   Config

	calls, attempts, gaveUp, settled, waited atomic.Int64
}

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Sweeper = (*Store)(nil)
)

// New wraps inner.
func New(inner storage.Store, cfg Config) *Store {
	cfg.setDefaults()
	return &Store{inner: inner, cfg: cfg}
}

// Stats returns what was counted so far.
func (s *Store) Stats() Stats {
	return Stats{Calls: s.calls.Load(), Attempts: s.attempts.Load(), GaveUp: s.gaveUp.Load(), Settled: s.settled.Load(),
		Waited: time.Duration(s.waited.Load())}
}

// URL returns the wrapped store's URL.
func (s *Store) URL() string { return s.inner.URL() }

// Broad implements storage.Broad for the wrapped store.
func (s *Store) Broad() bool { return storage.IsBroad(s.inner) }

// wholeFile is the number of bytes that a read of unknown length is given time for.
const wholeFile = 256 << 20

// do calls until it succeeds or repeating does not help. size is the number of bytes that an attempt moves. It returns the last
// error and whether one before it left the outcome unknown.
func (s *Store) do(ctx context.Context, size int64, call func(ctx context.Context) error) (unknown bool, err error) {
	s.calls.Add(1)
	limit := s.cfg.Attempt + time.Duration(float64(size)/float64(s.cfg.Rate)*float64(time.Second))
	shared := budgetOf(ctx)
	began := time.Now()
	for n := 1; ; n++ {
		s.attempts.Add(1)
		attempt, cancel := context.WithTimeout(ctx, limit)
		err = call(attempt)
		late := attempt.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || ctx.Err() != nil {
			return unknown, err
		}
		again := storage.Again(err)
		if late && errors.Is(err, context.DeadlineExceeded) {
			again = s.cfg.Budget
			err = fmt.Errorf("no answer in %v: %w", limit.Round(time.Second), err)
		}
		if again == 0 {
			return unknown, err
		}
		if n == 1 {
			shared.enter(began)
			defer shared.leave()
		}
		wait := s.wait(n)
		spent := time.Since(began)
		deadline, bounded := ctx.Deadline()
		if spent+wait > min(again, s.cfg.Budget) || bounded && time.Until(deadline) < wait {
			s.gaveUp.Add(1)
			return unknown, gaveUp(err, n, spent, "")
		}
		if ok, used := shared.spend(operation(err), wait); !ok {
			s.gaveUp.Add(1)
			return unknown, gaveUp(err, n, spent, used)
		}
		unknown = true
		if s.cfg.Observe != nil {
			s.cfg.Observe(err, wait)
		}
		s.waited.Add(int64(wait))
		if !sleep(ctx, wait) {
			return unknown, fmt.Errorf("%w while waiting to try again after: %w", ctx.Err(), err)
		}
	}
}

// operation is what an error says was tried.
func operation(err error) string {
	var located *storage.Error
	if errors.As(err, &located) {
		return located.Op
	}
	return "call"
}

// gaveUp adds to an error how much was tried, and what a shared budget was used for; its location and hint stay outermost.
func gaveUp(err error, n int, spent time.Duration, used string) error {
	if n == 1 && used == "" {
		return err
	}
	tried := func(err error) error {
		said := fmt.Sprintf("tried %d times in %v", n, spent.Round(time.Millisecond))
		if n == 1 {
			said = "tried once"
		}
		if used != "" {
			said += "; " + used
		}
		return fmt.Errorf("%s: %w", said, err)
	}
	var located *storage.Error
	if errors.As(err, &located) {
		out := *located
		out.Err = tried(located.Err)
		return &out
	}
	return tried(err)
}

// wait returns how long to wait after the n-th attempt: a random part of what doubles with each, so that many who were
// refused together do not come back together.
func (s *Store) wait(n int) time.Duration {
	top := s.cfg.Max
	if n < 30 {
		top = min(top, s.cfg.First<<(n-1))
	}
	return top/8 + rand.N(top-top/8)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
