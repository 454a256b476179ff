package timeline

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/storage"
)

// The columns of a level file (HoodieLSMTimelineInstant).
const (
	colInstant    = "instantTime"
	colCompletion = "completionTime"
	colAction     = "action"
	colMetadata   = "metadata"
	colPlan       = "plan"
	colVersion    = "version"
	// rowVersion is the only version of rows that is known.
	rowVersion = 1
)

// levelFile is one opened level file: footer and index columns. It does not change, except for the read-ahead.
type levelFile struct {
	archiveFile
	file *basefile.File
	rows []levelRow // by requested time, then action
	// byPosition are indexes into rows by position in the file.
	byPosition []int

	mu     sync.Mutex // guards what follows
	next   int64      // the row behind those read last
	window int        // how many rows were read then
}

type levelRow struct {
	requested, completed string
	action               Action
	derived              bool
	at                   int64 // in the file
}

func (r levelRow) instant() Instant {
	return Instant{Requested: r.requested, Completed: r.completed, Action: r.action, State: Completed, Derived: r.derived, Archived: true}
}

func (r levelRow) compare(o levelRow) int {
	return cmp.Or(cmp.Compare(r.requested, o.requested), cmp.Compare(r.action, o.action))
}

// level returns a level file with its index columns read.
func (a *Archive) level(ctx context.Context, f archiveFile) (*levelFile, error) {
	a.mu.Lock()
	l := a.levels[f.path]
	a.mu.Unlock()
	if l != nil && l.size == f.size {
		return l, nil
	}
	l, err := openLevel(ctx, a.st, f)
	if err != nil {
		return nil, levelError(f, err)
	}
	a.mu.Lock()
	a.levels[f.path] = l
	a.mu.Unlock()
	return l, nil
}

// levelError locates an error in a level file.
func levelError(f archiveFile, err error) error {
	e := &storage.Error{Op: "read archive file", Path: f.path, Err: err}
	if errors.Is(err, storage.ErrCorrupt) {
		e.Hint = archiveHint
	}
	return e
}

func openLevel(ctx context.Context, st storage.Store, f archiveFile) (*levelFile, error) {
	file, err := basefile.Open(ctx, storage.FileSource(st, f.path, f.size))
	if err != nil {
		return nil, err
	}
	for name, kind := range map[string]basefile.Kind{colInstant: basefile.String, colCompletion: basefile.String, colAction: basefile.String,
		colMetadata: basefile.Bytes, colPlan: basefile.Bytes, colVersion: basefile.Int32} {
		if got := file.ColumnKind(name); got != kind {
			return nil, damaged("column %s is %s instead of %s", name, got, kind)
		}
	}
	l := &levelFile{archiveFile: f, file: file}
	err = file.Read(ctx, []string{colInstant, colCompletion, colAction, colVersion}, func(r basefile.Row) error {
		row := levelRow{requested: string(r.Values[0]), completed: string(r.Values[1]), action: known(string(r.Values[2])), at: r.Position}
		if v := r.Values[3]; len(v) != 4 || binary.LittleEndian.Uint32(v) != rowVersion {
			return fmt.Errorf("row of version %x, only %d is known: %w", v, rowVersion, storage.ErrUnsupported)
		}
		if row.requested < f.min || row.requested > f.max || row.action == "" {
			return damaged("row %d: %q instant %q outside the file's range", row.at, row.action, row.requested)
		}
		if err := (nameOf{requested: row.requested, completed: row.completed}).checkTimes(); err != nil {
			return err
		}
		if row.completed == "" { // an old writer's; Hudi's own readers take the requested time as well
			row.completed, row.derived = row.requested, true
		}
		l.rows = append(l.rows, row)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(l.rows, levelRow.compare)
	if n := len(l.rows); n == 0 || l.rows[0].requested != f.min || l.rows[n-1].requested != f.max {
		return nil, damaged("an instant is in the file's name but not in its rows")
	}
	l.byPosition = make([]int, len(l.rows))
	for i, r := range l.rows {
		l.byPosition[r.at] = i
	}
	return l, nil
}

// known returns the constant of a known action, so that rows share its text.
func known(action string) Action {
	for _, a := range actions {
		if string(a) == action {
			return a
		}
	}
	return Action(action)
}

// find returns the row of an instant.
func (l *levelFile) find(requested string, a Action) (levelRow, bool) {
	i, ok := slices.BinarySearchFunc(l.rows, levelRow{requested: requested, action: a}, levelRow.compare)
	if !ok {
		return levelRow{}, false
	}
	return l.rows[i], true
}

const (
	// windowRows and windowBytes bound what is read ahead when metadata is asked for row after row.
	windowRows  = 128
	windowBytes = 8 << 20
	// windowGap is how many rows may be passed over (cleans, rows out of completion order) for that.
	windowGap = 16
)

// ahead returns how many rows to read at a row: one for a single look-up, more and more when rows are asked for in order.
func (l *levelFile) ahead(at int64) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at >= l.next && at < l.next+windowGap && l.window > 0 {
		l.window = min(l.window*8, windowRows)
	} else {
		l.window = 1
	}
	end := min(at+int64(l.window), l.file.Rows())
	l.next = end
	var positions []int64
	for ; at < end; at++ {
		positions = append(positions, at)
	}
	return positions
}

var errEnough = errors.New("read enough")

// content hands the bytes of one column at and behind a row to fn; they are valid during the call. nil: the row has none.
func (l *levelFile) content(ctx context.Context, column string, positions []int64, fn func(at int64, b []byte) error) error {
	var size int
	err := l.file.ReadAt(ctx, []string{column}, positions, func(r basefile.Row) error {
		if size += len(r.Values[0]); size > windowBytes && r.Position > positions[0] {
			return errEnough
		}
		return fn(r.Position, r.Values[0])
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err != nil {
		return levelError(l.archiveFile, err)
	}
	return nil
}
