package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows long work on standard error: a bar on a terminal; elsewhere a line at a fixed pace while a stage
// lasts, and one at its end unless it was brief.
type progress struct {
	out      io.Writer
	terminal bool
	now      func() time.Time

	mu    sync.Mutex // guards all below
	stage string
	bar   *progressbar.ProgressBar
	total int64
	done  int64
	began time.Time
	last  time.Time
}

const (
	// pace is the time between two plain lines of one stage.
	pace = 5 * time.Second
	// brief is how long a stage may last without a plain line.
	brief = 2 * time.Second
)

// newProgress shows work on w.
func newProgress(w io.Writer) *progress {
	p := &progress{out: w, now: time.Now}
	if f, ok := w.(*os.File); ok {
		p.terminal = term.IsTerminal(int(f.Fd()))
	}
	return p
}

// report says that of the total units of a stage so many are done. A total below 1 means that it is not known.
// Safe for concurrent use.
func (p *progress) report(stage string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if stage != p.stage {
		p.finishStage(now)
		p.stage, p.began, p.last = stage, now, now
		if p.terminal {
			p.bar = bar(p.out, stage, total)
		}
	}
	p.done, p.total = done, total
	if p.terminal {
		if total > 0 {
			p.bar.ChangeMax64(total)
		}
		if left := p.left(now); left != "" {
			p.bar.Describe(stage + ", " + left)
		}
		_ = p.bar.Set64(done)
		return
	}
	if now.Sub(p.last) >= pace {
		p.last = now
		p.line(now, "")
	}
}

// finish ends the current stage. It may be called more than once.
func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finishStage(p.now())
	p.stage = ""
}

func (p *progress) finishStage(now time.Time) {
	if p.stage == "" {
		return
	}
	if p.terminal {
		_ = p.bar.Clear()
		return
	}
	if now.Sub(p.began) >= brief {
		p.line(now, ", done")
	}
}

// line prints where the stage stands, its rate, and the time left when that can be known.
func (p *progress) line(now time.Time, end string) {
	elapsed := now.Sub(p.began)
	text := fmt.Sprintf("%s: %s", p.stage, count(p.done))
	if p.total > 0 {
		text += " of " + count(p.total)
	}
	if secs := elapsed.Seconds(); secs >= 1 && p.done > 0 {
		if rate := float64(p.done) / secs; rate >= 10 {
			text += fmt.Sprintf(", %.0f/s", rate)
		} else {
			text += fmt.Sprintf(", %.2g/s", rate)
		}
		if left := p.left(now); left != "" && end == "" {
			text += ", " + left
		}
	}
	fmt.Fprintln(p.out, text+end)
}

const (
	// settled is how long a stage must have lasted, and steady how many units and which share of them must be done, before an
	// end is estimated: the first units tell little, since they open what the others use.
	settled = 3 * time.Second
	steady  = 3
	share   = 0.02
)

// left says about how long the stage still takes; "" while that cannot be told.
func (p *progress) left(now time.Time) string {
	elapsed, rest := now.Sub(p.began), p.total-p.done
	if rest <= 0 || elapsed < settled || p.done < steady || float64(p.done) < share*float64(p.total) {
		return ""
	}
	d := time.Duration(float64(elapsed) / float64(p.done) * float64(rest))
	if d < time.Minute {
		return fmt.Sprintf("about %d s left", max(int(d.Round(time.Second).Seconds()), 1))
	}
	return "about " + duration(d) + " left"
}

// bar makes a bar for one stage, or a spinner if total is not known.
func bar(w io.Writer, stage string, total int64) *progressbar.ProgressBar {
	if total < 1 {
		total = -1
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(stage),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetPredictTime(false), // its estimate is wild at first: see left
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}
