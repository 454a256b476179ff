package storage

import (
	"errors"
	"testing"
)

// A room that says what a store said in other words does not say it twice.
func TestErrorDoesNotRepeatItself(t *testing.T) {
	t.Parallel()
	in := &Error{Op: "read", Path: "a/b", Err: ErrNotFound}
	for want, e := range map[string]*Error{
		"read properties a/b: not found": {Op: "read properties", Path: "a/b", Err: in},
		"read a/c: read a/b: not found":  {Op: "read", Path: "a/c", Err: in},
		"check a/b: read a/b: not found": {Op: "check", Path: "a/b", Err: in},
	} {
		if e.Error() != want || !errors.Is(e, ErrNotFound) {
			t.Errorf("%q, want %q", e.Error(), want)
		}
	}
}
