package simulation

import (
	"encoding/hex"
	"math/rand/v2"
)

// Event is one decision of the schedule: three small numbers, of which zero is the simplest.
type Event [3]byte

// Tape is a whole schedule.
type Tape []Event

// NewTape draws the schedule of a seed.
func NewTape(seed uint64, events int) Tape {
	r := rand.New(rand.NewPCG(seed, 109))
	t := make(Tape, events)
	for i := range t {
		t[i] = Event{byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))}
	}
	return t
}

// String is the tape as a text that ParseTape reads.
func (t Tape) String() string {
	var b []byte
	for _, e := range t {
		b = append(b, e[:]...)
	}
	return hex.EncodeToString(b)
}

// ParseTape reads a tape.
func ParseTape(text string) (Tape, error) {
	b, err := hex.DecodeString(text)
	if err != nil {
		return nil, err
	}
	var t Tape
	for ; len(b) >= 3; b = b[3:] {
		t = append(t, Event(b[:3]))
	}
	return t, nil
}

// Shrink returns a shorter and simpler tape that still fails, trying at most tries others.
func Shrink(t Tape, tries int, fails func(Tape) bool) Tape {
	try := func(c Tape) bool {
		if tries <= 0 {
			return false
		}
		tries--
		if !fails(c) {
			return false
		}
		t = c
		return true
	}
	for size := len(t) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(t); {
			c := append(append(Tape{}, t[:at]...), t[at+size:]...)
			if !try(c) {
				at += size
			}
		}
	}
	for i := range t {
		for n := range t[i] {
			for t[i][n] != 0 {
				c := append(Tape{}, t...)
				c[i][n] = 0
				if try(c) {
					break
				}
				c = append(Tape{}, t...)
				c[i][n] /= 2
				if !try(c) {
					break
				}
			}
		}
	}
	return t
}
