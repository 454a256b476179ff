package indexer

import (
	"context"
	"errors"

	"tidemark/diffing"
	"tidemark/indexer/copies"
	"tidemark/internal/hudi/mdt"
	"tidemark/timeline"
)

// compare gathers a batch, again as long as copies of its keys come to light. It returns the copies that are known afterwards.
func (l *look) compare(ctx context.Context, c cohort, indexes []opened, t *taken, limit int, observe func(done int)) ([]covered, *mdt.Copies, error) {
	files, err := l.table.Files(ctx)
	if err != nil {
		return nil, nil, err
	}
	watched := make([]copies.Index, len(indexes))
	for i, o := range indexes {
		watched[i] = copies.Index{State: o.index, View: o.view, Generation: o.gen}
	}
	w := copies.New(l.table, files, l.writes, watched, c.has)
	src := source{table: l.table, files: files}
	for {
		if err := t.restart(); err != nil {
			return nil, nil, err
		}
		done, stop := l.gather(ctx, c, indexes, src, w, t, limit, observe)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		again, err := w.Find(ctx)
		if err != nil {
			return nil, nil, err
		}
		if again {
			continue
		}
		in := map[string]bool{}
		for _, d := range done {
			in[d.instant.Requested] = true
		}
		known, stats, err := w.Copies(ctx, func(i timeline.Instant) bool { return in[i.Requested] || c.has(i) })
		if err != nil {
			return nil, nil, err
		}
		l.copies = stats
		return done, known, stop
	}
}

// compareUnit fills in the unit that is due next and compares it: together with later instants where a slice of its groups is gone, or one of
// another group that holds copies of its keys (design, decision 12).
func (l *look) compareUnit(ctx context.Context, src source, due []timeline.Instant, req *diffing.Request, w *copies.Watch, t *taken) ([]diffing.Result, error) {
	for least := 1; ; {
		req.Instants, req.Metas = nil, nil
		if err := l.unit(ctx, src, due, least, req); err != nil {
			return nil, err
		}
		w.Begin(req)
		t.begin(ctx, req)
		results, err := diffing.Compare(ctx, src, *req)
		if err == nil {
			return results, nil
		}
		w.Undo()
		t.Reset()
		if least = len(req.Instants) + 1; !errors.Is(err, diffing.ErrElsewhere) || least > len(due) {
			return nil, held(req.Instants[0], err)
		}
	}
}
