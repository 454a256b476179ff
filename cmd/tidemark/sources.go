package main

import (
	"context"
	"log/slog"
	"maps"

	"tidemark/indexer/follow"
	"tidemark/indexer/source"
	"tidemark/indexer/source/kafka"
	"tidemark/internal/config"
	"tidemark/internal/httpapi"
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
func (m messages) tell(t *otel.Telemetry, f *follow.Follower) {
	if m.source == nil {
		return
	}
	t.Source(m.source.Name(), func() otel.SourceState {
		st := m.source.Status()
		out := otel.SourceState{Connected: st.Connected, Messages: hintsOf(f, m.source.Name())}
		out.Messages["let_go"], out.Messages["given_up"] = st.Counts.LetGo, st.Counts.GivenUp
		maps.Copy(out.Messages, st.Counts.SetAside)
		return out
	})
}

// tellHTTP has telemetry ask for what came to a server's callback.
func tellHTTP(t *otel.Telemetry, f *follow.Follower, s *httpapi.Server) {
	t.Source(httpapi.SourceName, func() otel.SourceState {
		out := otel.SourceState{Connected: true, Messages: hintsOf(f, httpapi.SourceName)}
		maps.Copy(out.Messages, s.Callbacks())
		return out
	})
}

// hintsOf is what came from a source and was a hint.
func hintsOf(f *follow.Follower, source string) map[string]int64 {
	n := f.Hints(source)
	return map[string]int64{"hint": n.Known, "unknown": n.Unknown}
}

// wakeAll has the follower's tables looked at anew.
func wakeAll(f *follow.Follower) {
	for _, t := range f.Tables() {
		f.Wake(t.Name)
	}
}
