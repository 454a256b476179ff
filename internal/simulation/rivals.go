package simulation

import "time"

// apart is how far the clocks of rivals are off at most, so that they are up to 5 s apart.
const apart = 2500 * time.Millisecond

// rival plays one event of Tidemarks that work at one time, each with its own clock, and are paused for longer than their lease.
func (s *sim) rival(e Event) {
	if !s.begun {
		s.begun = true
		for i, p := range s.tidemarks {
			s.skew(p, int(e[i]))
		}
		s.begin(Event{evWrite, 0, 1 + e[2]%63})
		s.advance(s.hudi, 1<<20, false)
	}
	p, n := s.tidemarks[int(e[1])%len(s.tidemarks)], int(e[2])
	switch e[0] % 8 {
	case 0:
		s.begin(e)
		s.advance(s.hudi, 1<<20, false)
	case 1:
		s.begin(e)
		s.advance(s.hudi, 1+n%12, false)
	case 2, 3:
		if n%5 == 4 {
			s.fold(p)
		}
		s.hint(p, n%3)
		s.advance(p, 1+n%80, false)
	case 4, 5: // it stops anywhere, its lease ends, and another one goes on
		s.hint(p, 0)
		s.advance(p, n%120, false)
		d := time.Duration(25+n%40) * time.Second
		s.note("%s is paused for %s", p.name, d)
		s.sleep(d)
		other := s.tidemarks[(int(e[1])+1)%len(s.tidemarks)]
		s.hint(other, 0)
		if n%4 == 0 {
			s.advance(other, n%100, false)
			return
		}
		s.advance(other, 1<<20, false)
	case 6:
		s.hint(p, 0)
		s.advance(p, n%120, false)
		s.kill(p, n%2 == 1)
	case 7:
		s.skew(p, n)
		s.sleep(time.Duration(n%12) * time.Second)
	}
}

func (s *sim) skew(p *process, n int) {
	p.clock = time.Duration(n%128-64) * apart / 64
	s.note("the clock of %s is off by %s", p.name, p.clock)
}
