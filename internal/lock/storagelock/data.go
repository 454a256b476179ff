package storagelock

import (
	"encoding/json"
	"errors"
	"fmt"

	"tidemark/internal/storage"
)

// Path is where the lock of a table lies, relative to its base path, as Hudi's StorageBasedLockProvider has it.
const Path = ".hoodie/.locks/table_lock.json"

// data is the content of the lock file, fields in the order in which Hudi 1.2.0 writes them.
type data struct {
	Expired    bool   `json:"expired"`    // given back
	ValidUntil int64  `json:"validUntil"` // milliseconds since 1970, by the holder's clock
	Owner      string `json:"owner"`      // of one taking of the lock
}

func (d data) encode() []byte {
	b, err := json.Marshal(d)
	if err != nil {
		panic("lock data cannot be encoded: " + err.Error()) // a struct of three plain fields
	}
	return b
}

// decode reads a lock file as Hudi does: unknown fields are ignored, all three must be there and not null.
func decode(b []byte) (data, error) {
	var d struct {
		Expired    *bool   `json:"expired"`
		ValidUntil *int64  `json:"validUntil"`
		Owner      *string `json:"owner"`
	}
	err := json.Unmarshal(b, &d)
	if err == nil && (d.Expired == nil || d.ValidUntil == nil || d.Owner == nil) {
		err = errors.New("a field is missing")
	}
	if err != nil {
		return data{}, &storage.Error{Op: "read lock", Path: Path, Err: fmt.Errorf("%w: %w", err, storage.ErrCorrupt),
			Hint: "no writer can take this lock: stop all writers, then delete the file"}
	}
	return data{*d.Expired, *d.ValidUntil, *d.Owner}, nil
}
