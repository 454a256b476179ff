// Package open makes a lock.Locker from its name.
//
// It owns the names of locks on the command line and in the configuration, and which store each of them is for. It refuses what Hudi's writers
// could not share. It may import lock, its implementations and storage. Invariant: making a lock makes no request.
package open

import (
	"fmt"
	"strings"
	"time"

	"tidemark/internal/lock"
	"tidemark/internal/lock/filelock"
	"tidemark/internal/lock/inproc"
	"tidemark/internal/lock/storagelock"
	"tidemark/internal/storage"
)

// Names are what Parse takes, for help texts.
const Names = "none, process, storage, file, file:DIR or file:DIR:EXPIRE"

// Parse returns the lock that a text names for the table at the root of st; nil for "" and "none". "process" is one within this process,
// "storage" that of Hudi's StorageBasedLockProvider, "file" that of its FileSystemBasedLockProvider, with the directory of the lock file
// relative to the table (.hoodie if left out) and its expiry (such as 10m; never if left out). Anything else is storage.ErrUnsupported.
func Parse(text string, st storage.Store) (lock.Locker, error) {
	kind, rest, _ := strings.Cut(text, ":")
	refuse := func(why, hint string) (lock.Locker, error) {
		return nil, &storage.Error{Op: "open lock", Path: fmt.Sprintf("%q", text), Err: fmt.Errorf("%s: %w", why, storage.ErrUnsupported), Hint: hint}
	}
	if rest != "" && kind != "file" {
		return refuse("it takes no more words", "locks are "+Names)
	}
	switch kind {
	case "", "none":
		return nil, nil
	case "process":
		return inproc.New(st.URL(), 0), nil
	case "storage":
		return storagelock.New(st, storagelock.Config{}), nil
	case "file":
		if strings.Contains(st.URL(), "://") && !strings.HasPrefix(st.URL(), "mem://") {
			return refuse("Hudi has no such lock on this store", "write --lock storage")
		}
		var cfg filelock.Config
		dir, expire, timed := strings.Cut(rest, ":")
		if dir != "" && storage.CheckPath("open lock", dir) != nil {
			return refuse("its directory is not a clean path inside the table", "name it relative to the table, such as file:.hoodie/.aux")
		}
		cfg.Dir = dir
		if timed {
			d, err := time.ParseDuration(expire)
			if err != nil || d < 0 {
				return refuse("its expiry is no duration", "write it like file:.hoodie:10m")
			}
			cfg.Expire = d
		}
		return filelock.New(st, cfg), nil
	}
	return refuse("there is no such lock", "locks are "+Names)
}
