package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// object prints one JSON object on a line of its own.
func (a *app) object(v any) error {
	b, err := marshal(v)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	_, err = a.out.Write(b)
	return err
}

// marshal is json.Marshal with a final line feed, and with <, > and & left as they are.
func marshal(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// say prints one line for people.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.out, visible(fmt.Sprintf(format, args...)))
}

// warn prints one line for people on standard error.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintln(a.err, "tidemark: "+visible(fmt.Sprintf(format, args...)))
}

// visible is a text with everything that a terminal would act on, or that does not show, as an escape: record keys and names
// come from the table, and may be anything.
func visible(s string) string {
	shown := func(r rune) bool { return r != utf8.RuneError && strconv.IsPrint(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !shown(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case shown(r) || r == utf8.RuneError:
			b.WriteString(s[:n])
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

// maxCell bounds the width of a cell that people see, in characters, and maxLast that of the last cell of a row; --json shows all.
const (
	maxCell = 100
	maxLast = 300
)

// short cuts a text that is too long to be shown whole.
func short(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// grid is a small table for people: columns as wide as their widest cell, two blanks apart.
type grid struct {
	rows  [][]string
	right map[int]bool // columns aligned at their right edge
}

// newGrid makes a grid with a head; columns named in right are aligned at their right edge.
func newGrid(right ...int) *grid {
	g := &grid{right: map[int]bool{}}
	for _, c := range right {
		g.right[c] = true
	}
	return g
}

// add appends a row; values are printed with %v, "" leaves a cell empty.
func (g *grid) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		most := maxCell
		if i == len(cells)-1 {
			most = maxLast
		}
		row[i] = short(visible(fmt.Sprint(c)), most)
	}
	g.rows = append(g.rows, row)
}

// print writes the grid, each line after indent.
func (g *grid) print(a *app, indent string) {
	var width []int
	for _, row := range g.rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range g.rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				b.WriteString("  ")
			}
			if g.right[i] {
				b.WriteString(pad + cell)
			} else {
				b.WriteString(cell + pad)
			}
		}
		a.say("%s", indent+strings.TrimRight(b.String(), " "))
	}
}

// count writes a number with thin groups of three, as in 4,170.
func count[N int | int64 | uint64 | uint32](n N) string {
	s := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// size writes a number of bytes with a unit, as in 1.9 MB.
func size(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, suffix := float64(n), ""
	for _, suffix = range []string{"kB", "MB", "GB", "TB"} {
		f /= unit
		if f < unit {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", f, suffix)
}

// duration writes a time span with three digits at most, as in 1.2 s.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// plural writes a number and a noun, as in "1 commit" and "4 commits".
func plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}
