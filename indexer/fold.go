package indexer

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/sink"
)

const (
	// foldEvery is after how many commits of ours their logs are folded into base files (docs/format/commit.md, Fold).
	foldEvery = 10
	// foldWrites is how many writes a timeline has at least before its middle says anything about its archiver: Hudi keeps 20 to 30
	// unless told otherwise, and takes a third at once.
	foldWrites = 8
)

// foldLine is the time that the oldest commit of ours with log files should not lie below: the archiver of the metadata table never
// passes the earliest instant of the data timeline, and the middle of it is what the archiver of the data table leaves in the worst of
// common settings. What lies below is folded before either gets there.
func foldLine(l markers.Look) string {
	if len(l.Writes) < foldWrites {
		return l.Earliest
	}
	return max(l.Earliest, l.Writes[len(l.Writes)/2].Requested)
}

// foldRule says when to fold.
type foldRule struct {
	every int    // commits of ours; 0: foldEvery
	line  string // see foldLine, as of the pass at hand
}

// due says whether a fold should be made.
func (r foldRule) due(st *mdt.State) bool {
	unfolded, oldest := st.Unfolded()
	return st.Refold || unfolded >= cmp.Or(r.every, foldEvery) || unfolded > 0 && oldest < r.line
}

// fold folds the logs of the table's indexes if it is time. Where no id may be taken yet, or the table moves, it does nothing: the next
// pass tries again, and nothing depends on when it succeeds. It returns the id of its commit, "" if it made none.
func fold(ctx context.Context, sk Committer) (string, error) {
	st := sk.State()
	if !sk.memo.fold.due(st) {
		return "", nil
	}
	begun := sk.memo.clock()
	done, err := sk.Fold(ctx, sink.Fold{Revision: st.Revision, All: st.Refold, Keep: generation.Keeper})
	if errors.Is(err, storage.ErrStale) { // a *sink.WaitError, too
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("fold the logs of the index: %w", err)
	}
	if done.ID != "" && sk.memo.folded != nil {
		sk.memo.folded(sk.memo.clock().Sub(begun))
	}
	return done.ID, nil
}
