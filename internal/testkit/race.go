package testkit

import "testing"

// The race detector makes a program up to ten times as slow and has nothing to find in a proof that runs on one goroutine. So long
// proofs of that kind are left out of a run with it, or thinned, and make test plays them whole in a second run without it.

// Unraced skips a test under the race detector.
func Unraced(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("a long proof on one goroutine: make test runs it without the race detector")
	}
}

// Thinned says that the race detector watches and that number i is not in the part, every nth, that is then played.
func Thinned(i, n int) bool { return Race && i%n != 0 }
