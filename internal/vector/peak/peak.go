//go:build linux && amd64 && !purego

package peak

import (
	"syscall"
	"time"
	"unsafe"
)

// Measured says that Float32 and Float64 tell something in this build.
const Measured = true

// About a millisecond each, as what is compared with them: a longer run is disturbed more often.
const (
	fmaSteps    = 500_000
	mulAddSteps = 250_000
)

// Float32 spends one unit of float32 fused multiply-add in lanes of 256 bits: Float32Ops operations, a product and an
// addition counted as two.
func Float32() { fma(fmaSteps) }

// Float32Ops is how many operations Float32 is.
const Float32Ops = fmaSteps * 12 * 8 * 2

// Float64 spends one unit of float64 multiplication, then addition, in lanes of 256 bits: Float64Pairs pairs.
func Float64() { mulAdd(mulAddSteps) }

// Float64Pairs is how many pairs of a multiplication and an addition Float64 is.
const Float64Pairs = mulAddSteps * 10 * 4

// spent is the processor time of this thread.
func spent() time.Duration {
	const thread = 3 // CLOCK_THREAD_CPUTIME_ID; getrusage counts in ticks
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, thread, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		panic(errno)
	}
	return time.Duration(t.Nano())
}
