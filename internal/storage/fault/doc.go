// Package fault wraps a storage.Store and makes chosen calls fail, deterministically.
//
// It owns: stopping a process image at the n-th call, before or after the call's effect; what else can become of a call; a hook at
// every call; a trace of calls. It refuses to choose calls at random. It may import storage only. Invariant: without a fault
// configured it changes nothing.
//
// What a call can meet, each an Outcome or an error in one:
//
//	an error                     Outcome.Err, Config.Before
//	a kill, before or after      Outcome.Kill with After, Config.StopAt and StopAfter
//	unknown outcome              ErrUnknown, which nobody repeats, or TimedOut, which is worth repeating; with After for the effect
//	throttling                   Throttled
//	a read that breaks off       CutShort
//	a slow store                 Outcome.Wait
//	listings that lag            Outcome.Stale: what the directory held at the last listing. mem.Lagging lags by changes
//	a write that breaks off      Outcome.Short
//	a full disk                  DiskFull
package fault
