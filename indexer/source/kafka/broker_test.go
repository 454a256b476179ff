package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func TestBrokerDownAtStartAndForAnHour(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.setCut(true)
		p := start(w.t, "a", w.config())
		w.produce(message("t", 1))
		pass(time.Hour)
		if st := p.Status(); st.Connected || !strings.Contains(st.Reason, "connection refused") || st.Since.IsZero() {
			t.Errorf("while it is down: %+v", st)
		}
		if n := strings.Count(p.logged(), "no messages can be read"); n == 0 || n > 61 {
			t.Errorf("%d lines in the log for an hour, want at most one a minute", n)
		}
		w.setCut(false)
		pass(time.Minute)
		want(t, "hints", p.got(), []string{"t:" + instant(1)})
		if st := p.Status(); !st.Connected || st.Reason != "" {
			t.Errorf("once it is up: %+v", st)
		}
		w.setCut(true)
		p.end("", nil) // cannot be committed now
		w.produce(message("t", 2))
		pass(time.Hour)
		w.setCut(false)
		pass(2 * time.Minute)
		// The session had ended: what was not committed is read again.
		want(t, "hints", p.got(), []string{"t:" + instant(1), "t:" + instant(1), "t:" + instant(2)})
		p.end("", nil)
		settle()
		want(t, "offsets", w.committed(), map[int32]int64{partitionOf("t", 4): 2})
		p.stop()
	})
}

func TestStopWhileTheBrokerIsDown(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.setCut(true)
		p := start(w.t, "a", w.config())
		pass(10 * time.Minute)
		before := time.Now()
		p.stop()
		if took := time.Since(before); took > 8*time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
}

func TestLogins(t *testing.T) {
	t.Parallel()
	users := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "plain", "secret"),
		kfake.Superuser("SCRAM-SHA-256", "small", "secret"), kfake.Superuser("SCRAM-SHA-512", "large", "secret")}
	inWorld(t, func(w *world) {
		login := kgo.SASL(scram.Auth{User: "large", Pass: "secret"}.AsSha512Mechanism())
		to := []kgo.Opt{kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.Dialer(w.net.DialContext), login}
		produce(w.t, []*kgo.Record{message("t", 1)}, to...)
		for _, s := range []SASL{{"PLAIN", "plain", "secret"}, {"SCRAM-SHA-256", "small", "secret"}, {"SCRAM-SHA-512", "large", "secret"}} {
			cfg := w.config()
			cfg.SASL, cfg.Group = s, "group of "+s.Mechanism
			p := start(w.t, s.Mechanism, cfg)
			settle()
			want(t, s.Mechanism, p.got(), []string{"t:" + instant(1)})
			p.end("", nil)
			settle()
			want(t, s.Mechanism, committed(w.t, cfg.Group, 4, to...), map[int32]int64{partitionOf("t", 4): 1})
			p.stop()
		}
		for _, s := range []SASL{{}, {"PLAIN", "plain", "wrong"}, {"SCRAM-SHA-256", "small", "wrong"}, {"SCRAM-SHA-512", "nobody", "secret"}} {
			cfg := w.config()
			cfg.SASL = s
			p := start(w.t, s.Mechanism, cfg)
			pass(30 * time.Second)
			st := p.Status()
			if st.Connected || st.Reason == "" || len(p.got()) > 0 {
				t.Errorf("%+v: status %+v, hints %v", s, st, p.got())
			}
			if strings.Contains(p.logged(), s.Password) && s.Password != "" {
				t.Errorf("%s: the password is in the log", s.Mechanism)
			}
			t.Logf("%s by %q: %s", s.Mechanism, s.User, st.Reason)
			p.stop()
		}
	}, users...)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, pair := selfSigned(t)
	inWorld(t, func(w *world) {
		good := w.config()
		good.TLS = TLS{Enabled: true, CA: ca, ServerName: "broker.test"}
		conf, err := good.TLS.config()
		if err != nil {
			t.Fatal(err)
		}
		produce(w.t, []*kgo.Record{message("t", 1)}, kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.Dialer(encrypted(w.net.DialContext, conf)))
		p := start(w.t, "a", good)
		settle()
		want(t, "hints", p.got(), []string{"t:" + instant(1)})
		p.stop()
		for name, wrong := range map[string]TLS{"another name": {Enabled: true, CA: ca, ServerName: "other.test"}, "not trusted": {Enabled: true}} {
			cfg := w.config()
			cfg.TLS = wrong
			p := start(w.t, name, cfg)
			pass(time.Minute)
			if st := p.Status(); st.Connected || !strings.Contains(st.Reason, "certificate") {
				t.Errorf("%s: %+v", name, st)
			}
			p.stop()
		}
	}, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
}

// selfSigned makes a certificate of broker.test, valid in the year 2000, where virtual time begins.
func selfSigned(t *testing.T) (file string, pair tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.AddDate(3, 0, 0), DNSNames: []string{"broker.test"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
