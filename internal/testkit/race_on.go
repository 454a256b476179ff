//go:build race

package testkit

// Race says whether the race detector watches.
const Race = true
