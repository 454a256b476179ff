// Package simulation runs the real program, from the timeline to the sink, against a small table in memory while a simulated Hudi
// writer works on it, with every call of the store in the hands of one scheduler.
//
// It owns the schedule: which process makes its next call, which call fails or is answered late, who is killed, how much time passes.
// One number, the seed, decides all of it; the same seed gives the same run. It also owns what must hold after every step:
// the frontier never passes a commit that is not in the index, what is called fresh is right, the live postings are those of the rows
// that the index claims, and nothing is written outside our places. It refuses to know the protocol: what should be in the table is
// asked of hudimodel, a plain record of what was written. It may import every package below the command.
//
// Invariant: a failing seed prints a shrunk, readable run, and the tape that repeats it.
package simulation
