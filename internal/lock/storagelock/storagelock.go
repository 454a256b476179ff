// Package storagelock is the lock of Hudi's StorageBasedLockProvider: one file that is changed by conditional writes only.
//
// It owns the file's content, validity, renewal, and what an unknown outcome means. It refuses to take a lock whose holder may be alive, also
// when a clock is wrong. It may import lock and storage. Hudi supports this lock on S3, Cloud Storage and Azure; this package on every store.
// Invariant: the file is written only over the version that was read.
package storagelock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tidemark/internal/lock"
	"tidemark/internal/storage"
)

// drift is by how much clocks of writers may differ, as Hudi takes it.
const drift = 500 * time.Millisecond

// Config holds what is not required. The zero value works beside Hudi's defaults.
type Config struct {
	// Validity is how long the lock is ours without a renewal. Defaults to 300 s, as Hudi's.
	Validity time.Duration
	// Renew is how often it is renewed. Defaults to 30 s, as Hudi's; at most a tenth of Validity.
	Renew time.Duration
	// Watch is how long a lock that was not given back, and whose time is over by our clock, is watched before it is taken: a living
	// holder renews it meanwhile, and then it is our clock that is wrong. Defaults to 35 s, a little more than Hudi's holders take to renew.
	Watch time.Duration
	// Wait bounds Lock where another holds the lock. Defaults to lock.Wait.
	Wait time.Duration
	// Skew is by how much the store's clock may differ from ours. Beyond it the lock is refused: others would take it for over too early, or
	// never. Defaults to a tenth of Validity.
	Skew time.Duration
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

func (c *Config) setDefaults() {
	if c.Validity <= 0 {
		c.Validity = 300 * time.Second
	}
	if c.Renew <= 0 || c.Renew > c.Validity/10 {
		c.Renew = c.Validity / 10
	}
	if c.Watch <= 0 {
		c.Watch = 35 * time.Second
	}
	if c.Wait <= 0 {
		c.Wait = lock.Wait
	}
	if c.Skew <= 0 {
		c.Skew = c.Validity / 10
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Locker is the lock of one table. See New.
type Locker struct {
	st  *storage.Guard
	cfg Config
}

var (
	_ lock.Locker  = (*Locker)(nil)
	_ lock.Clearer = (*Locker)(nil)
)

// New returns the lock of the table at the root of st. It reads nothing. Through it nothing but the lock file can be written.
func New(st storage.Store, cfg Config) *Locker {
	cfg.setDefaults()
	return &Locker{storage.NewGuard(st, storage.AllowOnly(Path)), cfg}
}

// Lock implements lock.Locker. A lock file that is damaged is storage.ErrCorrupt; a clock that differs too much from the store's is
// storage.ErrRefused.
func (l *Locker) Lock(ctx context.Context) (lock.Held, error) {
	h, err := l.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("take the table's lock: %w", err)
	}
	return h, nil
}

// Clear implements lock.Clearer.
func (l *Locker) Clear(ctx context.Context) error {
	d, tag, err := l.read(ctx)
	if errors.Is(err, storage.ErrCorrupt) || err == nil && (tag == "" || d.Expired || !lock.Left(d.Owner)) {
		return nil // Lock tells of damage
	}
	if err == nil {
		d.Expired = true
		_, _, err = l.put(ctx, d, tag)
	}
	if err != nil && !errors.Is(err, storage.ErrConflict) { // then someone else was faster
		return fmt.Errorf("give back the lock of a process that is dead: %w", err)
	}
	return nil
}

// seen is a lock that was not given back, and since when it looks like this.
type seen struct {
	tag   string
	since time.Time
}

func (l *Locker) acquire(ctx context.Context) (*held, error) {
	owner, until := lock.NewOwner(), l.cfg.Now().Add(l.cfg.Wait)
	var watched seen
	var last error // why it was not taken
	for {
		d, tag, err := l.read(ctx)
		switch {
		case errors.Is(err, storage.ErrCorrupt):
			return nil, err
		case ctx.Err() != nil: // also where the read did not fail
			return nil, ctx.Err()
		case err != nil:
			last = err
		case tag == "" || d.Expired || d.Owner == owner || lock.Left(d.Owner) || l.over(d, tag, &watched):
			h, err := l.take(ctx, owner, tag)
			switch {
			case err == nil:
				return h, nil
			case ctx.Err() != nil:
				return nil, fmt.Errorf("%w (%w)", ctx.Err(), err)
			case errors.Is(err, storage.ErrRefused):
				return nil, err
			}
			last = err
		default:
			until := time.UnixMilli(d.ValidUntil).UTC().Format(time.RFC3339)
			last = &storage.Error{Op: "take", Path: Path, Err: fmt.Errorf("%w: %s, until %s", lock.ErrHeld, lock.Who(d.Owner), until),
				Hint: "run the same command again; if that holder is dead, the lock is taken over when that time is past"}
		}
		wait := until
		if watched.tag != "" { // one that looks abandoned is watched to the end, once
			wait = until.Add(l.cfg.Watch)
		}
		if !l.cfg.Now().Before(wait) {
			if !errors.Is(last, lock.ErrHeld) {
				last = fmt.Errorf("%w (%w)", lock.ErrHeld, last)
			}
			return nil, last
		}
		if err := lock.Sleep(ctx, lock.Poll); err != nil {
			return nil, err
		}
	}
}

// over says whether a lock that was not given back may be taken: its time is over, and it was watched for long enough.
func (l *Locker) over(d data, tag string, w *seen) bool {
	now := l.cfg.Now()
	if !now.After(time.UnixMilli(d.ValidUntil).Add(drift)) {
		*w = seen{}
		return false
	}
	if w.tag != tag {
		*w = seen{tag, now}
	}
	return now.Sub(w.since) >= l.cfg.Watch
}

// read returns the lock file and its version; "" when there is none.
func (l *Locker) read(ctx context.Context) (data, string, error) {
	b, info, err := l.st.ReadFile(ctx, Path)
	if errors.Is(err, storage.ErrNotFound) {
		return data{}, "", nil
	}
	if err != nil {
		return data{}, "", err
	}
	d, err := decode(b)
	return d, info.Tag, err
}

// put writes over one version. An unknown outcome is found out by reading. It returns the new version and the store's time.
func (l *Locker) put(ctx context.Context, d data, tag string) (string, time.Time, error) {
	info, err := l.st.Replace(ctx, Path, d.encode(), tag)
	if err == nil {
		return info.Tag, info.ModTime, nil
	}
	if errors.Is(err, storage.ErrRefused) || errors.Is(err, storage.ErrUnsupported) {
		return "", time.Time{}, err
	}
	// A conflict may be our own write whose answer was lost.
	b, info, readErr := l.st.ReadFile(ctx, Path)
	if readErr == nil && string(b) == string(d.encode()) {
		return info.Tag, info.ModTime, nil
	}
	return "", time.Time{}, err
}

// take writes ourselves into the lock file over the version that was read, and starts the renewal.
func (l *Locker) take(ctx context.Context, owner, tag string) (*held, error) {
	at := l.cfg.Now()
	d := data{ValidUntil: at.Add(l.cfg.Validity).UnixMilli(), Owner: owner}
	tag, written, err := l.put(ctx, d, tag)
	if err != nil {
		return nil, err
	}
	h := &held{l: l, owner: owner, tag: tag, until: at.Add(l.cfg.Validity), done: make(chan struct{})}
	if skew := written.Sub(l.cfg.Now()); !written.IsZero() && (skew > l.cfg.Skew || skew < -l.cfg.Skew-l.cfg.Now().Sub(at)) {
		err := &storage.Error{Op: "take", Path: Path, Hint: "set this machine's clock: other writers could not tell when the lock is over",
			Err: fmt.Errorf("this clock and the store's differ by %s: %w", skew.Round(time.Second), storage.ErrRefused)}
		close(h.done)
		return nil, errors.Join(err, h.Unlock(ctx))
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx)) // the lock outlives the call that took it
	h.stop = stop
	go h.renew(renewing)
	return h, nil
}

// held is the lock as it was written last.
type held struct {
	l     *Locker
	owner string
	stop  context.CancelFunc // ends the renewal
	done  chan struct{}      // closed when it has ended

	mu    sync.Mutex // guards the fields below, and is held across a write of the lock file, so that its versions follow each other
	tag   string
	until time.Time
	ended bool // given back or lost
}

// renew keeps the lock until it is stopped or lost.
func (h *held) renew(ctx context.Context) {
	defer close(h.done)
	tick := time.NewTicker(h.l.cfg.Renew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !h.renewOnce(ctx) {
			return
		}
	}
}

// renewOnce says whether the lock may still be ours.
func (h *held) renewOnce(ctx context.Context) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.l.cfg.Now()
	if h.ended || !at.Before(h.until) {
		h.ended = true // it is not revived: someone may have seen it over
		return false
	}
	until := at.Add(h.l.cfg.Validity)
	tag, _, err := h.l.put(ctx, data{ValidUntil: until.UnixMilli(), Owner: h.owner}, h.tag)
	switch {
	case err == nil:
		h.tag, h.until = tag, until
	case errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrNotFound):
		h.ended = true
	}
	return !h.ended // after another failure the next tick tries again; Check counts on the time that is left
}

// Check implements lock.Held: the file says so, and its time is not over.
func (h *held) Check(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return lock.ErrLost
	}
	d, tag, err := h.l.read(ctx)
	if err != nil {
		return fmt.Errorf("check the table's lock: %w", err)
	}
	if d.Owner != h.owner || d.Expired || tag == "" || !h.l.cfg.Now().Before(h.until) {
		h.ended = true
		return &storage.Error{Op: "check", Path: Path, Err: lock.ErrLost}
	}
	h.tag = tag // a renewal whose answer was lost
	return nil
}

// Unlock implements lock.Held: the file says expired, with the same time, as Hudi leaves it.
func (h *held) Unlock(ctx context.Context) error {
	if h.stop != nil {
		h.stop()
	}
	<-h.done
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return nil
	}
	h.ended = true
	d, tag, err := h.l.read(ctx)
	if err == nil && (tag == "" || d.Owner != h.owner || d.Expired) {
		return &storage.Error{Op: "give back", Path: Path, Err: lock.ErrLost}
	}
	if err == nil {
		d.Expired = true
		_, _, err = h.l.put(ctx, d, tag)
	}
	if errors.Is(err, storage.ErrConflict) {
		return &storage.Error{Op: "give back", Path: Path, Err: lock.ErrLost}
	}
	if err != nil {
		return fmt.Errorf("give back the table's lock: %w; it is over at %s", err, h.until.UTC().Format(time.RFC3339))
	}
	return nil
}
