package kafka

import (
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Counts are what a Source has done since it was made.
type Counts struct {
	// Messages were read. SetAside of them were no commit callbacks, by reason: see Reasons.
	Messages int64
	SetAside map[string]int64
	// LetGo were not waited for, because too many others waited (Config.MaxOutstanding). GivenUp still waited for the end of their pass when their
	// partition went to another process.
	LetGo, GivenUp int64
	// Rebalances is how often partitions were handed out.
	Rebalances int64
}

// Status is what an operator should know of a Source.
type Status struct {
	// Connected says that the broker answered when last asked. Reason says why not, Since since when either holds.
	Connected bool
	Reason    string
	Since     time.Time
	// Partitions are owned; Outstanding messages of them wait for the end of their pass.
	Partitions, Outstanding int
	Counts                  Counts
}

// Status returns the present state.
func (s *Source) Status() Status {
	var st Status
	st.Connected, st.Reason, st.Since = s.link.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Counts = s.counts
	st.Counts.SetAside = maps.Clone(s.counts.SetAside)
	st.Partitions = len(s.held)
	for _, h := range s.held {
		st.Outstanding += h.outstanding()
	}
	return st
}

// link knows whether the broker answers, from the client's own calls.
type link struct {
	log *slog.Logger

	mu     sync.Mutex
	is     bool
	reason string
	since  time.Time
}

var (
	_ kgo.HookBrokerConnect    = (*link)(nil)
	_ kgo.HookGroupManageError = (*link)(nil)
	_ kgo.HookBrokerE2E        = (*link)(nil)
)

// OnBrokerConnect hears of each try to connect.
func (l *link) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		l.down(err)
	}
}

// OnGroupManageError hears what threw us out of the group; the client joins again by itself.
func (l *link) OnGroupManageError(err error) { l.down(err) }

// OnBrokerE2E hears of each answer. That of a join or a heartbeat says that all is well; others may come before we are let in.
func (l *link) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	const heartbeat, syncGroup, fetch = 12, 14, 1
	if e2e.Err() == nil && (key == heartbeat || key == syncGroup || key == fetch) {
		l.up()
	}
}

func (l *link) up() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.is {
		return
	}
	l.is, l.reason, l.since = true, "", time.Now()
	l.log.Info("kafka: connected")
}

func (l *link) down(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.is || l.reason == ""
	l.reason = err.Error()
	if first {
		l.is, l.since = false, time.Now()
		l.log.Warn("kafka: no connection; tables are polled meanwhile, and it is tried again", "error", err)
	}
}

func (l *link) state() (connected bool, reason string, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.is && l.reason == "" {
		return false, "not connected yet", l.since
	}
	return l.is, l.reason, l.since
}

// teller logs what may come in floods: the first of a kind, and then at most one a minute with how many were left out.
type teller struct {
	log *slog.Logger

	mu   sync.Mutex
	last map[string]time.Time
	more map[string]int
}

func (t *teller) say(kind, text string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if at, said := t.last[kind]; said && now.Sub(at) < time.Minute {
		t.more[kind]++
		return
	}
	if t.last == nil {
		t.last, t.more = map[string]time.Time{}, map[string]int{}
	}
	if n := t.more[kind]; n > 0 {
		args = append(args, "more_since_last", n)
	}
	t.last[kind], t.more[kind] = now, 0
	t.log.Warn("kafka: "+text, args...)
}
