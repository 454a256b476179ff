package httpapi

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"tidemark/coverage"
	"tidemark/indexer/follow"
)

//go:embed page.html
var pageText string

// The template escapes everything by its place in the page.
var pageTemplate = template.Must(template.New("page").Parse(pageText))

// pageData is what the page shows.
type pageData struct {
	At      string
	Tables  []pageTable
	Fresh   int
	Unknown int64
	Ready   bool
	Why     string
}

type pageTable struct {
	Name, URL     string
	State, Colour string // Colour is one of good, busy, bad and none
	Lag           string
	Reason        string
	Indexes       []pageIndex
	Chart         *chart
	Recent        []pageCommit
	Looked        string
}

type pageIndex struct{ Name, Sentence string }

type pageCommit struct{ Instant, Index, Operation, Classes, Lag string }

// maxPage bounds the tables on the page; /v1/tables has them all.
const maxPage = 500

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	if !s.bucket.take(time.Now()) {
		s.fail(w, r, bad(http.StatusTooManyRequests, "come back in a second", "too many requests"))
		return
	}
	now := time.Now()
	d := pageData{At: now.UTC().Format("15:04:05") + " UTC", Unknown: s.cfg.Follower.Unknown()}
	d.Ready, d.Why = s.cfg.Follower.Ready()
	for _, v := range s.cfg.Follower.Tables() {
		if v.Fresh {
			d.Fresh++
		}
		if len(d.Tables) < maxPage {
			d.Tables = append(d.Tables, show(v, now))
		}
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	_ = pageTemplate.Execute(w, d) // the client has gone
}

// show is one table on the page.
func show(v follow.TableView, now time.Time) pageTable {
	t := pageTable{Name: v.Name, URL: v.URL, State: string(v.State), Reason: v.Reason, Chart: draw(v.Lag), Looked: "not looked at yet"}
	if t.State == "" {
		t.State = "waiting"
	}
	switch {
	case v.Error != "":
		t.Colour = "bad"
	case v.Fresh:
		t.Colour = "good"
	case v.State == coverage.StateCatchingUp || v.State == coverage.StateWaiting || v.State == coverage.StatePaused || v.State == coverage.StateDegraded:
		t.Colour = "busy"
	case v.State == "":
		t.Colour = "none"
	default:
		t.Colour = "bad"
	}
	if !v.LookedAt.IsZero() {
		t.Looked = "looked at " + ago(now.Sub(v.LookedAt))
	}
	commits, seconds, known := 0, 0.0, false
	for _, x := range v.Indexes {
		if x.Index != nil {
			t.Indexes = append(t.Indexes, pageIndex{*x.Index, x.Sentence()})
		} else {
			t.Indexes = append(t.Indexes, pageIndex{"", x.Sentence()})
		}
		if x.LagInstants != nil {
			known, commits = true, max(commits, *x.LagInstants)
		}
		if x.LagSeconds != nil {
			seconds = max(seconds, *x.LagSeconds)
		}
	}
	switch {
	case !known:
		t.Lag = "lag unknown"
	case commits == 1:
		t.Lag = "1 commit, " + span(seconds) + " behind"
	case commits > 0:
		t.Lag = fmt.Sprintf("%d commits, %s behind", commits, span(seconds))
	default:
		t.Lag = "no lag"
	}
	for _, c := range slices.Backward(v.Recent) {
		p := pageCommit{Instant: c.Requested, Index: c.Index, Operation: strings.ToLower(c.Operation), Classes: classes(c.Counts)}
		if lag, ok := c.Lag(); ok {
			p.Lag = span(lag.Seconds())
		}
		t.Recent = append(t.Recent, p)
	}
	return t
}

// classes writes the counts of a commit that are not 0.
func classes(counts map[string]int64) string {
	var out []string
	for _, c := range []struct{ class, sign string }{{"insert", "inserted"}, {"vector_update", "updated"}, {"delete", "deleted"},
		{"locator_refresh", "moved"}, {"unindexable", "unindexable"}} {
		if n := counts[c.class]; n != 0 {
			out = append(out, fmt.Sprintf("%d %s", n, c.sign))
		}
	}
	if len(out) == 0 {
		return "no vector changed"
	}
	return strings.Join(out, ", ")
}

// span writes seconds in a unit that fits.
func span(s float64) string {
	switch {
	case s < 0:
		return "0 s"
	case s < 10:
		return fmt.Sprintf("%.1f s", s)
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 7200:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%.0f h", s/3600)
	}
	return fmt.Sprintf("%.0f days", s/86400)
}

func ago(d time.Duration) string { return span(d.Seconds()) + " ago" }

// chart is the lag over time as a line in a drawing of 300 by 40.
type chart struct {
	Line, Area  string // points of an SVG polyline and polygon
	Label       string // for those who cannot see it
	Most, Since string
}

const chartWidth, chartHeight = 300.0, 40.0

// draw draws the lag in commits; nil if there is too little to draw.
func draw(points []follow.LagPoint) *chart {
	if len(points) < 2 {
		return nil
	}
	from, to := points[0].At, points[len(points)-1].At
	width, most := to.Sub(from).Seconds(), 0
	if width <= 0 {
		return nil
	}
	for _, p := range points {
		most = max(most, p.Instants)
	}
	var line strings.Builder
	for _, p := range points {
		y := chartHeight - 1
		if most > 0 {
			y -= (chartHeight - 2) * float64(p.Instants) / float64(most)
		}
		fmt.Fprintf(&line, "%.1f,%.1f ", chartWidth*p.At.Sub(from).Seconds()/width, y)
	}
	c := &chart{Line: strings.TrimSpace(line.String()), Most: fmt.Sprintf("most %d", most), Since: span(width)}
	c.Area = fmt.Sprintf("0,%g %s %g,%g", chartHeight, c.Line, chartWidth, chartHeight)
	c.Label = fmt.Sprintf("lag in commits over the last %s: %s, now %d", c.Since, c.Most, points[len(points)-1].Instants)
	return c
}
