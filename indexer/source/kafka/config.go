package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"tidemark/internal/storage"
)

// Config says where the messages are and how to get at them. Brokers and Topic are needed; the rest may be left out.
type Config struct {
	// Brokers are host:port of some of the cluster's brokers.
	Brokers []string
	// Topic is where the writers' callbacks go.
	Topic string
	// Group is the consumer group; processes of one group share the topic's partitions, and with them the tables. Defaults to "tidemark".
	Group string
	// ClientID names this process in the broker's logs. Defaults to "tidemark".
	ClientID string

	// TLS turns on encryption.
	TLS TLS
	// SASL says who we are.
	SASL SASL

	// MaxMessage is the largest message, in bytes, that is looked into; a larger one is set aside, and so is a batch of messages that would unpack
	// to more than four times as much. Defaults to 8 MiB.
	MaxMessage int
	// MaxOutstanding is how many messages of one partition may wait for the end of their pass; beyond it the oldest are let go:
	// counted, and left to polling. Defaults to 10,000.
	MaxOutstanding int
	// CommitInterval is the time between commits of offsets. Defaults to 1 s.
	CommitInterval time.Duration
	// HandOver bounds how long Rebalanced may keep a rebalance waiting. Defaults to 20 s.
	HandOver time.Duration

	// Rebalanced is called whenever this process has got or is about to give up partitions, with Owns answering anew already. The
	// rebalance waits until it returns: give up the leases of tables that are not owned any more. ctx ends after HandOver. Defaults to nothing.
	Rebalanced func(ctx context.Context)
	// Log gets what an operator should read: the broker out of reach and back, messages set aside, partitions that move. Defaults
	// to nowhere.
	Log *slog.Logger

	// dial replaces the network in tests.
	dial func(ctx context.Context, network, host string) (net.Conn, error)
}

// TLS is how a connection is encrypted. The zero value is no encryption.
type TLS struct {
	// Enabled turns it on.
	Enabled bool
	// CA is a file of certificates (PEM) to trust instead of the system's.
	CA string
	// Cert and Key are files (PEM) with our own certificate, where the broker asks for one.
	Cert, Key string
	// ServerName is the name that the broker's certificate must have. Defaults to the host that is dialled.
	ServerName string
}

// SASL is how we log in. The zero value is not at all.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; "" is none.
	Mechanism string
	// User and Password are sent as Mechanism says. PLAIN sends them as they are: use TLS.
	User, Password string
}

func (c *Config) setDefaults() {
	if c.Group == "" {
		c.Group = "tidemark"
	}
	if c.ClientID == "" {
		c.ClientID = "tidemark"
	}
	if c.MaxMessage <= 0 {
		c.MaxMessage = 8 << 20
	}
	if c.MaxOutstanding <= 0 {
		c.MaxOutstanding = 10_000
	}
	if c.CommitInterval <= 0 {
		c.CommitInterval = time.Second
	}
	if c.HandOver <= 0 {
		c.HandOver = 20 * time.Second
	}
	if c.Rebalanced == nil {
		c.Rebalanced = func(context.Context) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// validate reports everything that is wrong, by setting.
func (c *Config) validate() error {
	var bad []error
	if len(c.Brokers) == 0 {
		bad = append(bad, errors.New("brokers: none named"))
	}
	for _, b := range c.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			bad = append(bad, fmt.Errorf("brokers: %q is not host:port", b))
		}
	}
	if c.Topic == "" {
		bad = append(bad, errors.New("topic: not named"))
	}
	switch c.SASL.Mechanism {
	case "", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
	default:
		bad = append(bad, fmt.Errorf("sasl.mechanism: %q is not PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", c.SASL.Mechanism))
	}
	if c.SASL.Mechanism != "" && (c.SASL.User == "" || c.SASL.Password == "") {
		bad = append(bad, fmt.Errorf("sasl: %s needs a user and a password", c.SASL.Mechanism))
	}
	if c.SASL.Mechanism == "" && c.SASL.User != "" {
		bad = append(bad, errors.New("sasl.mechanism: missing beside a user"))
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		bad = append(bad, errors.New("tls: cert and key belong together"))
	}
	if !c.TLS.Enabled && (c.TLS.CA != "" || c.TLS.Cert != "" || c.TLS.ServerName != "") {
		bad = append(bad, errors.New("tls: settings beside enabled: false"))
	}
	if len(bad) > 0 {
		return &storage.Error{Op: "configure", Path: "source kafka", Err: errors.Join(bad...), Hint: "correct these settings"}
	}
	return nil
}

// options are the client's, without what belongs to one run.
func (c *Config) options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.ConsumeTopics(c.Topic),
		kgo.ConsumerGroup(c.Group),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.BlockRebalanceOnPoll(),
		kgo.DisableAutoCommit(),
		kgo.RebalanceTimeout(c.HandOver + 40*time.Second),
		// A group that is new reads what is there: at worst a few more looks at tables.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(8 << 20),
		kgo.FetchMaxPartitionBytes(1 << 20),
		kgo.MaxDecompressBatchBytes(4 * c.MaxMessage),
		// A topic that is created later is found, and a broker that comes back, in seconds.
		kgo.MetadataMaxAge(30 * time.Second),
		kgo.RetryBackoffFn(backoff),
	}
	dial := c.dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialing}).DialContext
	}
	if c.TLS.Enabled {
		t, err := c.TLS.config()
		if err != nil {
			return nil, err
		}
		dial = encrypted(dial, t)
	}
	opts = append(opts, kgo.Dialer(dial))
	switch c.SASL.Mechanism {
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: c.SASL.User, Pass: c.SASL.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: c.SASL.User, Pass: c.SASL.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: c.SASL.User, Pass: c.SASL.Password}.AsSha512Mechanism()))
	}
	return opts, nil
}

// dialing bounds one try to connect.
const dialing = 10 * time.Second

// encrypted is dial with TLS on top.
func encrypted(dial func(context.Context, string, string) (net.Conn, error), c *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		own := c.Clone()
		if own.ServerName == "" {
			if own.ServerName, _, err = net.SplitHostPort(addr); err != nil {
				return nil, errors.Join(err, raw.Close())
			}
		}
		ctx, cancel := context.WithTimeout(ctx, dialing)
		defer cancel()
		conn := tls.Client(raw, own)
		if err := conn.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		return conn, nil
	}
}

// backoff is the wait before try n+1: from 250 ms up to 10 s.
func backoff(n int) time.Duration {
	return min(250*time.Millisecond<<min(max(n-1, 0), 8), 10*time.Second)
}

func (t TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, &storage.Error{Op: "read", Path: t.CA, Err: err, Hint: "tls.ca names a file of PEM certificates"}
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &storage.Error{Op: "read", Path: t.CA, Err: fmt.Errorf("no certificate in it: %w", storage.ErrCorrupt),
				Hint: "tls.ca names a file of PEM certificates"}
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, &storage.Error{Op: "read", Path: strings.Join([]string{t.Cert, t.Key}, ", "), Err: err,
				Hint: "tls.cert and tls.key name PEM files that belong together"}
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
