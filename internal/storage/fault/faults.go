package fault

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"tidemark/internal/storage"
)

// Throttled is what an object store answers that asks to slow down: nothing was done, and the call is worth repeating.
func Throttled() error {
	return &storage.Error{Op: "ask", Err: errors.New("503 SlowDown"), Again: 2 * time.Minute,
		Hint: "the store asks to slow down; the same command can be run again, nothing is lost"}
}

// TimedOut is a call without an answer: its outcome is unknown, and it is worth repeating. See ErrUnknown for one that is not.
func TimedOut() error {
	return &storage.Error{Op: "ask", Err: ErrUnknown, Again: time.Minute, Hint: "look at the network"}
}

// CutShort is an answer that ended early, which says nothing of the file: the call is worth repeating.
func CutShort() error {
	return &storage.Error{Op: "ask", Err: fmt.Errorf("the answer ends early: %w", io.ErrUnexpectedEOF), Again: time.Minute,
		Hint: "look at the network"}
}

// DiskFull is a write for which there is no space: nothing was done, and repeating does not help before somebody frees some.
func DiskFull() error {
	return &storage.Error{Op: "write", Err: syscall.ENOSPC, Hint: "free space, then run the same command again; nothing is lost"}
}
