// Package host says who a process of this host is, so that others on the same host can tell that it is dead.
//
// It owns the names of host and process. It refuses to call anything dead that it cannot look up: another host, another boot, another
// process namespace, another user's process. It imports nothing of ours. Invariant: what is called dead never acts again.
package host

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ID names this host, its boot and its process namespace, so that a process id recorded together with it can be looked
// up. "" where that cannot be known; then no owner is ever taken for dead before its lease ends.
func ID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name + "/" + strings.TrimSpace(string(boot)) + "/" + space
}

// Alive says whether a process of this host is there. A process of another user counts as alive, and so does one whose id is not known.
func Alive(pid int) bool {
	return pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// Process is one process of one host.
type Process struct {
	Host  string // as ID
	PID   int
	Start uint64 // in ticks since boot; 0: not known
}

// Self is this process; ok is false where it could not be told that it is dead.
func Self() (p Process, ok bool) {
	p = Process{ID(), os.Getpid(), start(os.Getpid())}
	return p, p.Host != ""
}

// Dead says that the process was one of this host, in this boot and namespace, and is certainly over.
func (p Process) Dead() bool {
	if p.Host == "" || p.PID <= 0 || p.Host != ID() {
		return false
	}
	if !Alive(p.PID) {
		return true
	}
	now := start(p.PID)
	return p.Start != 0 && now != 0 && now != p.Start // the number was given to another process since
}

// mark stands between the parts of String; no host name has it.
const mark = ";"

// String is the form that Parse reads: host=…;pid=…;start=….
func (p Process) String() string {
	return fmt.Sprintf("host=%s%spid=%d%sstart=%d", p.Host, mark, p.PID, mark, p.Start)
}

// Parse reads what String wrote; false for any other text.
func Parse(text string) (Process, bool) {
	parts := strings.Split(text, mark)
	if len(parts) != 3 {
		return Process{}, false
	}
	name, isHost := strings.CutPrefix(parts[0], "host=")
	number, isPID := strings.CutPrefix(parts[1], "pid=")
	ticks, isStart := strings.CutPrefix(parts[2], "start=")
	pid, err := strconv.Atoi(number)
	at, err2 := strconv.ParseUint(ticks, 10, 64)
	if !isHost || !isPID || !isStart || name == "" || pid <= 0 || err != nil || err2 != nil {
		return Process{}, false
	}
	return Process{name, pid, at}, true
}

// start is when a process began, in ticks since boot; 0 if that is not known.
func start(pid int) uint64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The second field is a name in brackets, which may have anything in it; the start is the 22nd.
	_, rest, found := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 {
		return 0
	}
	at, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0
	}
	return at
}
