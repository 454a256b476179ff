package table

import (
	"fmt"

	"tidemark/internal/storage"
)

// record is what the logs of a slice say about one key, folded so far.
type record struct {
	deleted bool
	order   ordering
	vals    []any  // per column of the plan; nil for a delete
	has     []bool // which columns vals has: nil = all. Columns a partial update left out come from the older version
}

// fold merges a later log record onto what earlier ones left (spec 7.3).
func (p *plan) fold(old, new *record) (*record, error) {
	if old == nil {
		return new, nil
	}
	if len(p.order) == 0 { // commit time: the later one wins
		return p.onto(new, old)
	}
	if new.deleted {
		if old.deleted && old.order == nil { // a delete by commit time stays
			return old, nil
		}
		if new.order != nil && old.order.comparable(new.order) {
			c, err := old.order.compare(new.order)
			if err != nil {
				return nil, err
			}
			if c > 0 {
				return old, nil
			}
		}
		return new, nil
	}
	if old.deleted && old.order == nil {
		return p.onto(new, old)
	}
	if new.has != nil && !p.hasOrder(new) { // a partial update that does not set the ordering applies as it comes
		merged, err := p.onto(new, old)
		if err == nil {
			merged.order = old.order
		}
		return merged, err
	}
	c, err := new.order.compare(old.order)
	if err != nil {
		return nil, err
	}
	if c >= 0 {
		return p.onto(new, old)
	}
	return p.onto(old, new)
}

// onto lets winner win; what it does not have comes from the other version, if that has it.
func (p *plan) onto(winner, other *record) (*record, error) {
	if winner.deleted || winner.has == nil {
		return winner, nil
	}
	if other.deleted {
		return nil, fmt.Errorf("partial update of a deleted row: %w", storage.ErrUnsupported)
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
	return out, nil
}

func (p *plan) hasOrder(r *record) bool {
	for _, at := range p.order {
		if !r.has[at] {
			return false
		}
	}
	return true
}

// final merges the folded log record onto the base row. nil: the row is deleted; keep: the base row stays as it is.
func (p *plan) final(base, log *record) (out *record, keep bool, err error) {
	if len(p.order) > 0 && (log.has == nil || p.hasOrder(log)) { // a partial update without ordering applies as it comes
		if log.deleted && !base.order.comparable(log.order) { // a delete by commit time above all
			return nil, false, nil
		}
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
	out, err = p.onto(log, base)
	return out, false, err
}
