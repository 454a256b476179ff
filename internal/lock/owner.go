package lock

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"tidemark/internal/host"
)

// Clearer is a Locker that can tell that a lock was left behind.
type Clearer interface {
	// Clear gives the lock back that a process of ours on this host held when it was killed. It waits for nobody and does nothing where
	// that cannot be proven.
	Clear(ctx context.Context) error
}

// program begins the owner of every lock of ours.
const program = "tidemark-"

// NewOwner names one taking of a lock by this process; no two are the same. Hudi's clients take an owner for any text.
func NewOwner() string {
	owner := program + rand.Text()
	if self, ok := host.Self(); ok {
		owner += "@" + self.String()
	}
	return owner
}

// ownerOf is the process in an owner that NewOwner made.
func ownerOf(owner string) (host.Process, bool) {
	_, process, found := strings.Cut(owner, "@")
	if !found || !strings.HasPrefix(owner, program) {
		return host.Process{}, false
	}
	return host.Parse(process)
}

// Left says that a lock's owner was a process of ours on this host that is certainly dead, so that the lock may be taken at once.
func Left(owner string) bool {
	p, ok := ownerOf(owner)
	return ok && p.Dead()
}

// Who names a lock's owner for people.
func Who(owner string) string {
	p, ok := ownerOf(owner)
	switch {
	case ok:
		name, _, _ := strings.Cut(p.Host, "/")
		return fmt.Sprintf("tidemark, process %d on host %s", p.PID, name)
	case strings.HasPrefix(owner, program):
		return "tidemark"
	case owner == "":
		return "a writer that does not say who it is"
	}
	return fmt.Sprintf("writer %q", owner)
}
