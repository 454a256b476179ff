package sink

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// hostID names this host, its boot and its process namespace, so that a process id recorded together with it can be looked
// up. "" where that cannot be known; then no owner is ever taken for dead before its lease ends.
func hostID() string {
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

// pidAlive says whether a process of this host is there. A process of another user counts as alive.
func pidAlive(pid int) bool {
	if pid <= 0 {
		return true // not known
	}
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
