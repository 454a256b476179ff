package storage

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kinds of error. Every room returns one of them (wrapped) where the caller can act on it; anything else is a
// transient or unknown failure.
var (
	// ErrNotFound says that a file, directory, table, index or instant is not there.
	ErrNotFound = errors.New("not found")
	// ErrExists says that Create found the name taken. Read what is there before deciding: it may be one's own
	// earlier attempt.
	ErrExists = errors.New("already exists")
	// ErrConflict says that a compare-and-swap lost: the content is not the one that was read. Reload and redo.
	ErrConflict = errors.New("changed by someone else")
	// ErrCorrupt says that bytes are there but are not what they must be: checksum, length, magic, structure.
	ErrCorrupt = errors.New("corrupt")
	// ErrUnsupported says that the input is well formed but of a kind or version that is not handled.
	ErrUnsupported = errors.New("unsupported")
	// ErrRefused says that an operation was declined before it had any effect: a guard, a missing permission, a
	// read-only place, another owner.
	ErrRefused = errors.New("refused")
	// ErrStale says that a check made earlier no longer holds: what was computed must be thrown away and redone.
	ErrStale = errors.New("stale")
)

// ErrLocked says that another process holds a lock for longer than any work under it takes: it is stopped or hangs. Nothing was written.
var ErrLocked = fmt.Errorf("locked by another process: %w", ErrRefused)

// Error locates a failure. Its text is "op path: err"; Unwrap gives Err, whose chain holds the kind.
type Error struct {
	Op   string // verb, for example "read"
	Path string // path relative to the store's root, or a name that the operator knows
	Hint string // next step for the operator; "" when there is none
	Err  error  // kind, or cause wrapping the kind
	// Again is for how long, from the first try on, it is worth making the same call once more: the store was throttled,
	// broken or out of reach. 0 when repeating does not help. Who repeats is package retry, nobody else.
	Again time.Duration
}

// Error returns the located message without the hint.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Path != "" {
		b.WriteString(" ")
		b.WriteString(e.Path)
	}
	if e.Err != nil {
		cause := e.Err
		if in, ok := cause.(*Error); ok && in.Err != nil && in.Path == e.Path && (in.Op == e.Op || strings.HasPrefix(e.Op, in.Op+" ")) {
			cause = in.Err // a store said the same before, in other words
		}
		b.WriteString(": ")
		b.WriteString(cause.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns the first non-empty Hint in the error's chain, outermost first; "" when there is none.
func Hint(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := err.(*Error); ok && e.Hint != "" {
		return e.Hint
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		return Hint(u.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range u.Unwrap() {
			if h := Hint(inner); h != "" {
				return h
			}
		}
	}
	return ""
}

// Again returns the largest Again in the error's chain.
func Again(err error) time.Duration {
	var found time.Duration
	if e, ok := err.(*Error); ok {
		found = e.Again
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		found = max(found, Again(u.Unwrap()))
	case interface{ Unwrap() []error }:
		for _, inner := range u.Unwrap() {
			found = max(found, Again(inner))
		}
	}
	return found
}
