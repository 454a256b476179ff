// Package spill keeps what may not fit in memory: up to a bound it stays there, beyond that it goes to a temporary file.
//
// It owns temporary files, an external merge sort and buffers of bytes. It knows nothing of what it keeps. Its files have no name
// from the moment they are open, where the system allows it, so that even a killed process leaves none behind. Its one
// invariant: what comes out does not depend on the bound.
package spill
