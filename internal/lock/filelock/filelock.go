// Package filelock is the lock of Hudi's FileSystemBasedLockProvider: a file that is there while the lock is held.
//
// It owns the file's content and its expiry. The protocol has no owner and no renewal: who finds the file expired deletes it, and a Java
// client that closes deletes it whoever's it is. So Check reads the file again, and hold times are meant to be far below the expiry. It may
// import lock and storage. Invariant: the file is made only where none is, or over the expired one that was read.
package filelock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"tidemark/internal/lock"
	"tidemark/internal/storage"
)

// DefaultDir is where Hudi puts the file without hoodie.write.lock.filesystem.path, relative to the table's base path. Flink's writers have
// .hoodie/.aux instead.
const DefaultDir = ".hoodie"

// name of the file in its directory.
const name = "lock"

// Config holds what is not required. The zero value works beside Hudi's defaults.
type Config struct {
	// Dir is the directory of the lock file, relative to the table's base path. Defaults to DefaultDir.
	Dir string
	// Expire is after what time a lock file is left over by a dead holder, by its modification time; it must be what the table's writers
	// have as hoodie.write.lock.filesystem.expire. Defaults to 0: never, as Hudi's.
	Expire time.Duration
	// Wait bounds Lock where another holds the lock. Defaults to lock.Wait.
	Wait time.Duration
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Locker is the lock of one table. See New.
type Locker struct {
	st   *storage.Guard
	path string
	cfg  Config
}

var (
	_ lock.Locker  = (*Locker)(nil)
	_ lock.Clearer = (*Locker)(nil)
)

// New returns the lock of the table at the root of st. It reads nothing. Through it nothing but the lock file can be written.
func New(st storage.Store, cfg Config) *Locker {
	if cfg.Dir == "" {
		cfg.Dir = DefaultDir
	}
	if cfg.Wait <= 0 {
		cfg.Wait = lock.Wait
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	file := path.Join(cfg.Dir, name)
	return &Locker{storage.NewGuard(st, storage.AllowOnly(file)), file, cfg}
}

// ahead is by how much the store's clock may be ahead of ours without a word.
const ahead = 2 * time.Second

// refused says who holds the lock, since when, and what can be done.
func (l *Locker) refused(owner string, there storage.Info, now time.Time) error {
	since := there.ModTime.UTC().Format(time.RFC3339)
	e := &storage.Error{Op: "take", Path: l.path, Err: fmt.Errorf("%w: %s, since %s", lock.ErrHeld, lock.Who(owner), since)}
	switch by := there.ModTime.Sub(now); {
	case l.cfg.Expire > 0 && by > ahead:
		e.Err = fmt.Errorf("%w, which is %s ahead of this clock", e.Err, by.Round(time.Second))
		e.Hint = fmt.Sprintf("its expiry of %v counts from that time, so it is over only at %s by this clock: set the clock that is wrong; if that holder is dead, delete the file",
			l.cfg.Expire, there.ModTime.Add(l.cfg.Expire).UTC().Format(time.RFC3339))
	case l.cfg.Expire > 0:
		e.Hint = fmt.Sprintf("run the same command again; if that holder is dead, the lock is over at %s", there.ModTime.Add(l.cfg.Expire).UTC().Format(time.RFC3339))
	default:
		e.Hint = "run the same command again; if that holder is dead, delete the file, which never expires"
	}
	return e
}

// Clear implements lock.Clearer.
func (l *Locker) Clear(ctx context.Context) error {
	b, _, err := l.st.ReadFile(ctx, l.path)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !lock.Left(ownerOf(b)) {
		return nil
	}
	var h *held
	if err == nil {
		h, err = l.try(ctx, l.content()) // over the dead holder's, so that nobody else's file is deleted
	}
	if errors.Is(err, storage.ErrConflict) { // someone else was faster
		return nil
	}
	if err != nil {
		return fmt.Errorf("give back the lock of a process that is dead: %w", err)
	}
	return h.Unlock(ctx)
}

// ownerOf is who a lock file names; "" if it does not.
func ownerOf(b []byte) string {
	var i info
	if json.Unmarshal(b, &i) != nil {
		return ""
	}
	return i.Thread
}

// info is the content of the file. Of it nobody decides but Check, and we by a Thread of ours, which names the process.
type info struct {
	Created string   `json:"lockCreateTime"`
	Thread  string   `json:"lockThreadName"`
	Stack   []string `json:"lockStacksInfo"`
}

// content returns what the file holds while it is ours. No two are the same.
func (l *Locker) content() []byte {
	b, err := json.MarshalIndent(info{l.cfg.Now().Format("2006-01-02 15:04:05.000"), lock.NewOwner(), []string{}}, "", "  ")
	if err != nil {
		panic("lock info cannot be encoded: " + err.Error()) // a struct of three plain fields
	}
	return b
}

// Lock implements lock.Locker.
func (l *Locker) Lock(ctx context.Context) (lock.Held, error) {
	until, content := l.cfg.Now().Add(l.cfg.Wait), l.content()
	for {
		h, err := l.try(ctx, content)
		if h != nil {
			return h, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("take the table's lock: %w (%w)", ctx.Err(), err)
		}
		if errors.Is(err, storage.ErrRefused) || errors.Is(err, storage.ErrUnsupported) {
			return nil, fmt.Errorf("take the table's lock: %w", err)
		}
		if !l.cfg.Now().Before(until) {
			if !errors.Is(err, lock.ErrHeld) {
				err = fmt.Errorf("%w (%w)", lock.ErrHeld, err)
			}
			return nil, fmt.Errorf("take the table's lock: %w", err)
		}
		if err := lock.Sleep(ctx, lock.Poll); err != nil {
			return nil, fmt.Errorf("take the table's lock: %w", err)
		}
	}
}

// try takes the lock if it is free or expired.
func (l *Locker) try(ctx context.Context, content []byte) (*held, error) {
	at := l.cfg.Now()
	b, there, err := l.st.ReadFile(ctx, l.path)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		_, err = l.st.Create(ctx, l.path, content)
		if errors.Is(err, storage.ErrExists) {
			err = lock.ErrHeld // or ours, if the answer was lost: the next try sees it
		}
	case err == nil && bytes.Equal(b, content):
		at = there.ModTime
	case err == nil && (lock.Left(ownerOf(b)) || l.cfg.Expire > 0 && at.Sub(there.ModTime) > l.cfg.Expire):
		_, err = l.st.Replace(ctx, l.path, content, there.Tag)
	case err == nil:
		err = l.refused(ownerOf(b), there, at)
	}
	if err != nil {
		return nil, err
	}
	return &held{l: l, content: content, at: at}, nil
}

type held struct {
	l       *Locker
	content []byte
	at      time.Time

	mu    sync.Mutex // guards ended
	ended bool
}

// ours says whether the file is still the one that was made, and not so old that a waiter may have begun to take it.
func (h *held) ours(ctx context.Context) error {
	b, _, err := h.l.st.ReadFile(ctx, h.l.path)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("check the table's lock: %w", err)
	}
	if err != nil || !bytes.Equal(b, h.content) || h.l.cfg.Expire > 0 && h.l.cfg.Now().Sub(h.at) > h.l.cfg.Expire/2 {
		return &storage.Error{Op: "check", Path: h.l.path, Err: lock.ErrLost}
	}
	return nil
}

// Check implements lock.Held. Half of the expiry counts as lost: a waiter may look at the file, find it expired and delete it later.
func (h *held) Check(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return lock.ErrLost
	}
	return h.ours(ctx)
}

// Unlock implements lock.Held.
func (h *held) Unlock(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return nil
	}
	h.ended = true
	if err := h.ours(ctx); err != nil {
		return err
	}
	if err := h.l.st.Delete(ctx, h.l.path); err != nil {
		return fmt.Errorf("give back the table's lock: %w", err)
	}
	return nil
}
