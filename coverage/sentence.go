package coverage

import (
	"fmt"
	"time"
)

// Sentence says for people whether the index is fresh, how far it is behind, why, and what to type.
func (s IndexStatus) Sentence() string {
	if s.Index == nil {
		return "not fresh" + s.tail()
	}
	if s.Fresh {
		text := "fresh: index " + *s.Index + " covers every commit"
		if s.Latest != nil {
			text += " up to " + s.Latest.Requested
		}
		return text + s.tail()
	}
	return "not fresh: index " + *s.Index + s.behind() + s.tail()
}

// behind tells the lag, where it is known.
func (s IndexStatus) behind() string {
	switch {
	case s.LagInstants == nil:
		return ", lag unknown"
	case *s.LagInstants == 0:
		return ""
	}
	text := fmt.Sprintf(", %s behind", count(*s.LagInstants, "commit"))
	if s.LagSeconds != nil {
		text += fmt.Sprintf(" (%s)", short(time.Duration(*s.LagSeconds*float64(time.Second))))
	}
	return text
}

func (s IndexStatus) tail() string {
	text := ""
	if s.State != StateFresh {
		text += " (" + string(s.State) + ")"
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	if s.Next != "" {
		text += "; next: " + s.Next
	}
	return text
}
