package peak

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Least calls the functions in turns, rounds times, and returns the least processor time of each in seconds. drift is by how much the
// first function, which is the calibration, differs between the first half of the rounds and the second, as a share of the lesser one.
func Least(rounds int, fns ...func()) (least []float64, drift float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	halves := [2][]float64{make([]float64, len(fns)), make([]float64, len(fns))}
	for r := range max(2, rounds) {
		half := halves[2*r/max(2, rounds)]
		for i, fn := range fns {
			before := spent()
			fn()
			if t := (spent() - before).Seconds(); half[i] == 0 || t < half[i] {
				half[i] = t
			}
		}
	}
	least = halves[0]
	drift = max(halves[0][0], halves[1][0])/min(halves[0][0], halves[1][0]) - 1
	for i, t := range halves[1] {
		least[i] = min(least[i], t)
	}
	return least, drift
}

// Together is how long a function took on one thread and on two at once, the least of many runs: by the clock on the wall, and by the
// processor time of one thread in that run.
type Together struct{ Wall, Processor [2]float64 }

// Scaling is what two threads do in the time of one, by the clock on the wall.
func (t Together) Scaling() float64 { return 2 * t.Wall[0] / t.Wall[1] }

// Cost is the processor time of one call beside another one, as a share of that alone: 2 ÷ Cost is what two free cores would give.
func (t Together) Cost() float64 { return t.Processor[1] / t.Processor[0] }

// TwoCores runs each function alone and twice at once, in turns, for about that time. The threads wait for one another at the start of each run
// without sleeping, so that waking them is not counted. fn must not share what it writes.
func TwoCores(long time.Duration, fns ...func()) []Together {
	out := make([]Together, len(fns))
	for begin := time.Now(); time.Since(begin) < long; {
		for i, fn := range fns {
			for more := range 2 {
				wall, processor := atOnce(more+1, fn)
				if t := &out[i]; t.Wall[more] == 0 || wall < t.Wall[more] {
					t.Wall[more] = wall
				}
				if t := &out[i]; t.Processor[more] == 0 || processor < t.Processor[more] {
					t.Processor[more] = processor
				}
			}
		}
	}
	return out
}

// atOnce is the time from the common start until the last thread is done, and the greatest processor time of one.
func atOnce(threads int, fn func()) (wall, processor float64) {
	var ready atomic.Int32
	var all sync.WaitGroup
	var mu sync.Mutex // guards the results
	for range threads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for ready.Add(1); ready.Load() < int32(threads); {
			}
			start, before := time.Now(), spent()
			fn()
			took, used := time.Since(start).Seconds(), (spent() - before).Seconds()
			mu.Lock()
			defer mu.Unlock()
			wall, processor = max(wall, took), max(processor, used)
		})
	}
	all.Wait()
	return wall, processor
}
