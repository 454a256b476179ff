package coverage

import (
	"cmp"
	"context"
	"path"
	"regexp"
	"strconv"
	"time"

	"tidemark/internal/hudi/table"
	"tidemark/timeline"
)

// cleansRead is how many of the newest cleans are asked what they kept.
const cleansRead = 3

// horizon says how many more commits the table takes until it forgets what the first uncovered commit needs: the slice before it
// (the cleaner), the commit itself (the archiver). A writer's settings are seldom in the table, so where they are not it goes by what
// cleaner and archiver did lately, and rather says too few than too many.
func (l *look) horizon(ctx context.Context, v Verdict) (Horizon, error) {
	var h Horizon
	if len(v.Due) == 0 {
		return h, nil
	}
	writes, first := l.tl.Writes(), v.Due[0]
	for _, i := range v.Due {
		if i.Requested < first.Requested {
			first = i
		}
	}
	since := 0 // completed commits from the first uncovered one on
	for _, w := range writes {
		if w.Requested >= first.Requested {
			since++
		}
	}
	left := func(keeps int) *int { n := max(keeps-since+1, 0); return &n }
	keeps, taken, err := l.cleanerKeeps(ctx, writes, first)
	if err != nil {
		return Horizon{}, err
	}
	switch {
	case taken:
		h.Cleaner = new(int)
	case keeps > 0:
		h.Cleaner = left(keeps)
	}
	if first.Archived {
		h.Archiver = new(int)
	} else if keeps, err = l.archiverKeeps(ctx, writes); err != nil {
		return Horizon{}, err
	} else if keeps > 0 {
		h.Archiver = left(keeps)
	}
	h.CleanerAbout, h.ArchiverAbout = about(writes, h.Cleaner), about(writes, h.Archiver)
	return h, nil
}

// cleanerKeeps returns how many commits the cleaner keeps the slices of, 0 if that is not known, and whether it has passed a
// commit already. The cleaner keeps what the snapshot before each of the newest commits needs.
func (l *look) cleanerKeeps(ctx context.Context, writes []timeline.Instant, first timeline.Instant) (keeps int, taken bool, err error) {
	if n, ok := l.setting("hoodie.clean.commits.retained", "hoodie.cleaner.commits.retained"); ok {
		keeps = n
	}
	cleans := l.tl.CompletedOf(timeline.Clean)
	for _, c := range cleans[max(len(cleans)-cleansRead, 0):] {
		m, err := timeline.ReadClean(ctx, l.deps.Place.Store, table.HoodieDir, l.props, c)
		if gone(err) {
			continue // archived meanwhile
		}
		if err != nil {
			return 0, false, err
		}
		if m.EarliestRetained == "" {
			continue // it keeps file versions, not commits
		}
		taken = taken || m.EarliestRetained > first.Requested
		kept := 0
		for _, w := range writes {
			if w.Requested >= m.EarliestRetained && w.Requested <= cmp.Or(m.LastCompleted, c.Requested) {
				kept++
			}
		}
		if kept > 0 && (keeps == 0 || kept < keeps) {
			keeps = kept
		}
	}
	return keeps, taken, nil
}

// batchName is the name of a file of one run of the archiver.
var batchName = regexp.MustCompile(`^(\d+)_(\d+)_0\.parquet$`)

// archiverKeeps returns how many commits the archiver leaves on the active timeline at the least, 0 if that is not known. A run
// leaves the smallest number allowed, and the next one comes when there are so many more again as it then takes. So of the
// commits that are active now, all but one of such a batch may have come since.
func (l *look) archiverKeeps(ctx context.Context, writes []timeline.Instant) (int, error) {
	if n, ok := l.setting("hoodie.keep.min.commits"); ok {
		return n, nil
	}
	infos, err := listDir(ctx, l.deps.Place.Store, l.props.HistoryDir(table.HoodieDir))
	if err != nil {
		return 0, err
	}
	from, to := "", ""
	for _, info := range infos {
		if m := batchName.FindStringSubmatch(path.Base(info.Path)); m != nil && m[2] > to {
			from, to = m[1], m[2]
		}
	}
	if to == "" {
		return 0, nil
	}
	batch := 0
	for i, err := range timeline.NewArchive(l.deps.Place.Store, table.HoodieDir, l.props).Instants(ctx, from, to) {
		if err != nil {
			return 0, err
		}
		if i.IsDataWrite() {
			batch++
		}
	}
	if batch == 0 {
		return 0, nil
	}
	return max(len(writes)-(batch-1), 1), nil
}

func (l *look) setting(keys ...string) (int, bool) {
	for _, k := range keys {
		if n, err := strconv.Atoi(l.props.Raw[k]); err == nil && n > 0 {
			return n, true
		}
	}
	return 0, false
}

// paceCommits is over how many of the newest commits the pace is taken.
const paceCommits = 20

// about says how long a number of commits takes at the pace of the newest ones.
func about(writes []timeline.Instant, n *int) string {
	if n == nil {
		return ""
	}
	if *n == 0 {
		return "now"
	}
	recent := writes[max(len(writes)-paceCommits, 0):]
	if len(recent) < 2 {
		return ""
	}
	first, err1 := timeline.InstantTime(recent[0].Completed, time.UTC)
	last, err2 := timeline.InstantTime(recent[len(recent)-1].Completed, time.UTC)
	if err1 != nil || err2 != nil || !last.After(first) {
		return ""
	}
	return "about " + short(last.Sub(first)/time.Duration(len(recent)-1)*time.Duration(*n))
}
