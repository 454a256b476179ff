package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tidemark/internal/storage"
)

// A lock is held for one compare, write, rename and directory sync: milliseconds. Who waits for longer than lockWait waits for a process
// that is stopped or hangs. The pauses between two tries grow from the first to the last.
const (
	lockWait   = 10 * time.Second
	firstPause = time.Millisecond
	lastPause  = 50 * time.Millisecond
)

// await locks f, the lock file of path, until it is closed. It gives up when ctx ends or after lockWait: storage.ErrLocked, with who
// holds it where the system tells. Its holder keeps the lock, however long it is stopped: nobody gets past it meanwhile.
func await(ctx context.Context, f *os.File, op, path string) error {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := tryLock(f)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return wrap(op, path, err)
		}
		spent := time.Since(began)
		if spent >= lockWait {
			return held(f, op, path, spent, nil)
		}
		t := time.NewTimer(min(pause, lockWait-spent))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return held(f, op, path, time.Since(began), ctx.Err())
		}
	}
}

// tryLock locks f until it is closed, or fails with EWOULDBLOCK at once.
func tryLock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// held is the error of a wait that was given up; cause is why, nil when it had lasted long enough.
func held(f *os.File, op, path string, spent time.Duration, cause error) error {
	who, pid := "another process", holder(f)
	hint := fmt.Sprintf("nothing was written; find out who holds it, on every machine that has this file system mounted: fuser -v %s", f.Name())
	if pid > 0 {
		who = fmt.Sprintf("process %d", pid)
		hint = fmt.Sprintf("nothing was written; see what it does (ps %d), let it go on (kill -CONT %d) or end it, then run the same command again", pid, pid)
	}
	err := fmt.Errorf("%s holds the lock file %s, waited for %s: %w", who, filepath.Base(f.Name()), spent.Round(time.Millisecond), storage.ErrLocked)
	if cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return &storage.Error{Op: op, Path: path, Err: err, Hint: hint}
}

// holder returns the process that holds a lock on f by /proc/locks; 0 where that does not tell: another system, another machine, a process
// of another namespace.
func holder(f *os.File) int {
	b, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0
	}
	dev := uint64(st.Dev) // narrower on other systems
	return holderIn(string(b), fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), st.Ino))
}

// holderIn finds the holder of a file, as device and inode, in the text of /proc/locks. Some file systems give another device there
// than fstat does: an inode that only one line has will do.
func holderIn(locks, file string) int {
	inode := file[strings.LastIndex(file, ":"):]
	exact, similar, several := 0, 0, false
	for line := range strings.Lines(locks) {
		// 12: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF; lines of those who wait have "->" in second place.
		w := strings.Fields(line)
		if len(w) < 6 || w[1] != "FLOCK" || !strings.HasSuffix(w[5], inode) {
			continue
		}
		pid, err := strconv.Atoi(w[4])
		if err != nil {
			continue
		}
		if w[5] == file {
			exact = pid
		}
		several = several || similar != 0
		similar = pid
	}
	switch {
	case exact != 0:
		return exact
	case several:
		return 0
	}
	return similar
}
