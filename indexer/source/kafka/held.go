package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

// held are the messages of one partition whose pass has not ended, and those behind them, in order.
type held struct {
	mu     sync.Mutex
	gone   bool // the partition is another's: nothing is committed any more
	queue  []*entry
	commit func(*kgo.Record) // told the newest message up to which all are done
}

type entry struct {
	record *kgo.Record // without its value
	done   bool
}

// add holds a message. It returns what is to be called when its pass has ended, and how many older ones were let go for it.
func (h *held) add(r *kgo.Record, most int) (done func(), letGo int) {
	// Only the position is needed: values would keep whole fetches in memory.
	e := &entry{record: &kgo.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = append(h.queue, e)
	for i := 0; len(h.queue)-i > most; i++ {
		if !h.queue[i].done {
			h.queue[i].done = true
			letGo++
		}
	}
	if letGo > 0 {
		h.advance()
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !e.done {
			e.done = true
			h.advance()
		}
	}, letGo
}

// advance tells how far everything is done. The lock is held.
func (h *held) advance() {
	n := 0
	for n < len(h.queue) && h.queue[n].done {
		n++
	}
	if n == 0 {
		return
	}
	last := h.queue[n-1].record
	clear(h.queue[:n])
	h.queue = h.queue[n:]
	if !h.gone {
		h.commit(last)
	}
}

// giveUp ends it: the partition is another's. It returns how many messages were still waiting.
func (h *held) giveUp() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = true
	return h.waiting()
}

func (h *held) outstanding() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting()
}

func (h *held) waiting() int {
	n := 0
	for _, e := range h.queue {
		if !e.done {
			n++
		}
	}
	return n
}
