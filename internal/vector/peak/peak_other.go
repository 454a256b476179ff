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

// Least calls the functions in turns, rounds times, and returns the least time of each in seconds.
func Least(rounds int, fns ...func()) []float64 {
	least := make([]float64, len(fns))
	for r := range rounds {
		for i, fn := range fns {
			before := time.Now()
			fn()
			if t := time.Since(before).Seconds(); r == 0 || t < least[i] {
				least[i] = t
			}
		}
	}
	return least
}
