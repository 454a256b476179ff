package table

import (
	"fmt"

	"tidemark/internal/storage"
)

// record is what the logs of a slice say about one key, folded so far.
type record struct {
	deleted bool
	entry   bool // deleted by an entry of a delete block, not by a row that marks itself
	order   ordering
	vals    []any  // per column of the plan; nil for a delete
	has     []bool // which columns vals has: nil = all. Columns a partial update left out come from the older version
}

// unordered says that the record is a delete by commit time.
func (r *record) unordered() bool { return r.deleted && r.order.isDefault() }

// fold merges a later log record onto what earlier ones left (docs/format/slices.md, "Merging"), as Hudi 1.2.0 does it: its
// event-time mergers, with and without partial updates, agree but for the columns they fill in.
func (p *plan) fold(old, new *record) (*record, error) {
	switch {
	case old == nil:
		return new, nil
	case len(p.order) == 0: // commit time: the later one wins
		if new.has != nil && old.deleted {
			return nil, fmt.Errorf("partial update of a deleted row: %w", storage.ErrUnsupported) // Hudi has no schema of the older one and fails
		}
		return p.onto(new, old), nil
	case new.entry && old.unordered(): // a delete by commit time stays
		return old, nil
	case new.entry && old.order.sameKinds(new.order) && !new.order.isDefault():
		if c, err := old.order.compare(new.order); err != nil || c > 0 {
			return old, err
		}
		return new, nil
	case new.entry || new.unordered() || old.unordered():
		return new, nil
	}
	c, err := new.order.compare(old.order)
	if err != nil {
		return nil, err
	}
	if c < 0 {
		return p.onto(old, new), nil
	}
	return p.onto(new, old), nil
}

// onto lets winner win; what it does not have comes from the other version, if that has it. A delete has nothing: a partial update that
// follows a delete which lost, or one by commit time, stays partial until it meets the base row.
func (p *plan) onto(winner, other *record) *record {
	if winner.has == nil || other.deleted {
		return winner
	}
	out := &record{order: winner.order, vals: make([]any, len(winner.vals)), has: make([]bool, len(winner.vals))}
	whole := true
	for i := range out.vals {
		switch {
		case winner.has[i]:
			out.vals[i], out.has[i] = winner.vals[i], true
		case other.has == nil || other.has[i]:
			out.vals[i], out.has[i] = other.vals[i], true
		default:
			whole = false
		}
	}
	if other.has == nil || whole {
		out.has = nil
	}
	return out
}

// final merges the folded log record onto the base row. nil: the row is deleted; keep: the base row stays as it is.
func (p *plan) final(base, log *record) (out *record, keep bool, err error) {
	if len(p.order) > 0 && !log.unordered() {
		c, err := log.order.compare(base.order)
		if err != nil {
			return nil, false, err
		}
		if c < 0 {
			return nil, true, nil
		}
	}
	if log.deleted {
		return nil, false, nil
	}
	return p.onto(log, base), false, nil
}
