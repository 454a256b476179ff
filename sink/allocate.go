package sink

import (
	"fmt"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// Limits of the sequence (docs/format/commit.md, Ids without a clock). The time generator of every writer waits 200 ms inside its lock, so the milliseconds just after a
// data-table time are free; once the newest file is old, no writer can produce the values of the next seconds any more.
const (
	youngFile   = 10 * time.Second
	youngIDs    = 4    // ids after the newest data-table time while its file is young
	oldMillis   = 5000 // milliseconds after it later on
	maxSkips    = 10000
	idLength    = 17
	minNewestID = "0001"
)

// seen is what the sequence needs to know about the data table.
type seen struct {
	newest string                 // newest requested or completion time of a completed instant; "" = none
	file   time.Time              // newest modification time of a file of its timeline
	now    time.Time              // the store's time of our last write
	taken  func(time string) bool // is it on either timeline
	onData func(time string) bool // is it on the data timeline
	alone  bool                   // nobody else writes to our metadata table: there are no limits
}

// notice moves NewestSeen forward.
func notice(st *mdt.State, newest string) {
	if newest > st.NewestSeen {
		st.NewestSeen, st.Allocated = newest, 0
	}
}

// allocate takes the next id and completion time from the one growing sequence (docs/format/commit.md, Ids without a clock) and records them in st.
// *WaitError when a limit forbids it now.
func allocate(st *mdt.State, in seen) (id, completion string, err error) {
	notice(st, in.newest)
	if len(st.NewestSeen) != idLength || st.NewestSeen < minNewestID {
		return "", "", &storage.Error{Op: "allocate", Path: "id", Hint: "write to the table once, then try again",
			Err: fmt.Errorf("the table has no completed instant: %w", storage.ErrRefused)}
	}
	young := in.now.Sub(in.file) < youngFile && !in.alone
	if young && st.Allocated >= youngIDs {
		until := in.file.Add(youngFile)
		return "", "", &WaitError{Until: until,
			Reason: fmt.Sprintf("%d commits follow instant %s, whose file is younger than %s", st.Allocated, st.NewestSeen, youngFile)}
	}
	limit, err := timeline.AddMillis(st.NewestSeen, oldMillis)
	if err != nil {
		return "", "", err
	}
	t := max(st.LastTime, st.NewestSeen)
	for range maxSkips {
		if t, err = timeline.AddMillis(t, 1); err != nil {
			return "", "", err
		}
		next, err := timeline.AddMillis(t, 1)
		if err != nil {
			return "", "", err
		}
		if next > limit && !in.alone {
			return "", "", &WaitError{Reason: fmt.Sprintf("the times of our commits are the %d ms after the newest instant of the table, %s, and all are taken; the table's next commit brings new ones",
				oldMillis, st.NewestSeen)}
		}
		after, err := timeline.AddMillis(next, 1)
		if err != nil {
			return "", "", err
		}
		// MDT compaction uses the millisecond before a data-table instant.
		if in.taken(t) || in.taken(next) || in.onData(after) {
			continue
		}
		st.LastTime = next
		st.Allocated++
		return t, next, nil
	}
	return "", "", fmt.Errorf("allocate id: no free time in %d tries: %w", maxSkips, storage.ErrRefused)
}
