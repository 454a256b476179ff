package main

import (
	"context"
	"log/slog"

	"tidemark/indexer"
	"tidemark/indexer/source"
	"tidemark/indexer/source/kafka"
	"tidemark/internal/config"
	"tidemark/otel"
)

// messages is the Kafka source of a daemon; the zero value is none.
type messages struct {
	source *kafka.Source
}

// newMessages makes the Kafka source that a configuration asks for. Where ownership has moved, changed is called.
func newMessages(k config.Kafka, log *slog.Logger, changed func()) (messages, error) {
	if len(k.Brokers) == 0 {
		return messages{}, nil
	}
	s, err := kafka.New(kafka.Config{
		Brokers: k.Brokers, Topic: k.Topic, Group: k.Group, ClientID: k.ClientID, MaxMessage: int(k.MaxMessage),
		TLS:  kafka.TLS{Enabled: k.TLS.Enabled, CA: k.TLS.CA, Cert: k.TLS.Cert, Key: k.TLS.Key, ServerName: k.TLS.ServerName},
		SASL: kafka.SASL{Mechanism: k.SASL.Mechanism, User: k.SASL.User, Password: k.SASL.Password.Reveal()},
		// A table's lease is held during a pass only, so there is none to give up: who owns the table is asked before each pass.
		Rebalanced: func(context.Context) { changed() },
		Log:        log,
	})
	return messages{s}, err
}

// sources are what the follower runs.
func (m messages) sources() []source.Source {
	if m.source == nil {
		return nil
	}
	return []source.Source{m.source}
}

// owns says whether a table, by its name, is this process's to work on: it is unless another process of the group has its messages.
func (m messages) owns(name string) bool {
	return m.source == nil || m.source.Owns(name) != kafka.Elsewhere
}

// tell has telemetry ask for the source's state.
func (m messages) tell(t *otel.Telemetry) {
	if m.source == nil {
		return
	}
	t.Source(m.source.Name(), func() otel.SourceState {
		st := m.source.Status()
		out := otel.SourceState{Connected: st.Connected, Messages: map[string]int64{"let_go": st.Counts.LetGo, "given_up": st.Counts.GivenUp}}
		aside := int64(0)
		for reason, n := range st.Counts.SetAside {
			out.Messages[reason] = n
			aside += n
		}
		out.Messages["hint"] = st.Counts.Messages - aside
		return out
	})
}

// wakeAll has the follower's tables looked at anew.
func wakeAll(f *indexer.Follower) {
	for _, t := range f.Tables() {
		f.Wake(t.Name)
	}
}
