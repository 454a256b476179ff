package table

import "context"

// ScanKeys hands on the merged rows of a slice whose keys are wanted, without vectors: of the base file the key column is read whole, the other
// columns only where wanted keys lie; the logs are read whole. Where the keys can be listed ReadKeys reads less.
func (t *Table) ScanKeys(ctx context.Context, s Slice, wanted func(key string) bool, fn func(Row) error) error {
	p, err := t.plan(Columns{}, len(s.Logs) > 0)
	if err != nil {
		return err
	}
	l, err := t.readLogs(ctx, s, p, wanted)
	if err != nil {
		return err
	}
	m := &merger{t: t, p: p, s: s, logs: l, seen: map[string]bool{}, fn: fn}
	if s.Base != nil {
		f, err := m.open(ctx)
		if err != nil {
			return err
		}
		if err := m.byKeys(ctx, f, wanted, nil, m.row); err != nil {
			return m.failed(err)
		}
	}
	return m.rest()
}
