//go:build !linux || !amd64 || purego

package peak

import "time"

// Measured says that Float32 and Float64 tell something in this build.
const Measured = false

// Float32Ops is how many operations Float32 is.
const Float32Ops = 1

// Float64Pairs is how many pairs of a multiplication and an addition Float64 is.
const Float64Pairs = 1

// Float32 does nothing in this build.
func Float32() {}

// Float64 does nothing in this build.
func Float64() {}

var began = time.Now()

// spent is the time since the start: this build cannot ask for that of a thread.
func spent() time.Duration { return time.Since(began) }
