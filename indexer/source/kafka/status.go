package kafka

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
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

// link knows whether the broker answers and the topic can be read, from the client's own calls.
type link struct {
	tell *teller

	mu     sync.Mutex
	is     bool
	reason string
	since  time.Time
	unread string    // why the topic was not read when that was last tried
	tried  time.Time // when that was
}

// remembered is how long an error of reading the topic is shown: the client tries again more often than that.
const remembered = 2 * time.Minute

var (
	_ kgo.HookBrokerConnect    = (*link)(nil)
	_ kgo.HookGroupManageError = (*link)(nil)
	_ kgo.HookBrokerE2E        = (*link)(nil)
)

// OnBrokerConnect hears of each try to connect.
func (l *link) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		l.down(err)
	}
}

// OnGroupManageError hears what threw us out of the group; the client joins again by itself.
func (l *link) OnGroupManageError(err error) {
	if !errors.Is(err, context.Canceled) {
		l.down(err)
	}
}

// OnBrokerE2E hears of each answer. One to a fetch or a heartbeat says that all is well; others may come before we are let in.
func (l *link) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if e2e.Err() == nil && (kmsg.Key(key) == kmsg.Fetch || kmsg.Key(key) == kmsg.Heartbeat) {
		l.up()
	}
}

func (l *link) up() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.is {
		l.is, l.reason, l.since = true, "", time.Now()
		l.tell.info("connected", "connected")
	}
}

func (l *link) down(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.is || l.since.IsZero() {
		l.is, l.since = false, time.Now()
	}
	l.reason = err.Error()
	l.tell.say("down", "no messages can be read; it is tried again, and tables are polled meanwhile", "error", err)
}

// read says how reading the topic went.
func (l *link) read(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unread, l.tried = "", time.Now()
	if err != nil {
		l.unread = err.Error()
		l.tell.say("unread", "no messages can be read; it is tried again, and tables are polled meanwhile", "error", err)
	}
}

func (l *link) state() (connected bool, reason string, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.is && l.reason == "":
		return false, "not connected yet", l.since
	case l.is && l.unread != "" && time.Since(l.tried) < remembered:
		return false, l.unread, l.tried
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

func (t *teller) say(kind, text string, args ...any)  { t.at(slog.LevelWarn, kind, text, args) }
func (t *teller) info(kind, text string, args ...any) { t.at(slog.LevelInfo, kind, text, args) }

func (t *teller) at(level slog.Level, kind, text string, args []any) {
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
	t.log.Log(context.Background(), level, "kafka: "+text, args...)
}
