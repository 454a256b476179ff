package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/internal/config"
	"tidemark/internal/storage"
	"tidemark/internal/testkit"
)

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tidemark.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestLayers(t *testing.T) {
	t.Parallel()
	name := write(t, `
tables:
  - /data/plain
  - path: s3://bucket/orders
    name: orders
    aliases: [/warehouse/orders]
    indexes: embedding_idx
    interval: 3s
    zone_offset: "+02:00"
    budgets: {calls: 4, memory: 32MiB}
    policy: {attempts: -1}
budgets:
  memory: 1GiB
sources:
  poll: {interval: 30s}
  kafka:
    # nothing but a comment is a section, too
http:
  address: 127.0.0.1:1
  secret: hush
`)
	l, err := config.Load(config.Input{File: name, Env: []string{"TIDEMARK_SOURCES_POLL_INTERVAL=20s", "TIDEMARK_HTTP_ADDRESS=127.0.0.1:2", "HOME=/x"},
		Flags: map[string]string{"http.address": "127.0.0.1:3"}, Tables: []string{"/data/more"}})
	if err != nil {
		t.Fatal(err)
	}
	if l.HTTP.Address != "127.0.0.1:3" || l.Sources.Poll.Interval != 20*time.Second || l.Budgets.Memory != 1<<30 || l.Policy.Attempts != 5 {
		t.Errorf("got %+v", l.Config)
	}
	for key, want := range map[string]string{"http.address": "--http-address", "sources.poll.interval": "$TIDEMARK_SOURCES_POLL_INTERVAL",
		"budgets.memory": name + ":13", "policy.attempts": "default", "tables": name + ", arguments"} {
		if l.Origin[key] != want {
			t.Errorf("%s comes from %s, want %s", key, l.Origin[key], want)
		}
	}
	if len(l.Tables) != 3 || l.Tables[0].Path != "/data/plain" || l.Tables[2].Path != "/data/more" {
		t.Fatalf("tables: %+v", l.Tables)
	}
	orders := l.Tables[1]
	if orders.Name != "orders" || !slices.Equal(orders.Aliases, []string{"/warehouse/orders"}) || !slices.Equal(orders.Indexes, []string{"embedding_idx"}) ||
		orders.Interval != 3*time.Second || orders.Budgets.Calls != 4 || orders.Budgets.Memory != 32<<20 || orders.Policy.Attempts != -1 {
		t.Errorf("table: %+v", orders)
	}
	if zone, err := config.ParseZoneOffset(orders.ZoneOffset); err != nil || *zone != 2*time.Hour {
		t.Errorf("zone: %v, %v", zone, err)
	}
	for _, e := range l.Effective() {
		if strings.Contains(e.Value, "hush") {
			t.Errorf("%s shows a secret", e.Key)
		}
	}
}

// All that is wrong is said together, each with its line.
func TestProblemsAreSaidTogether(t *testing.T) {
	t.Parallel()
	name := write(t, `tabels: []
tables:
  - name: nameless
  - path: /a
    intervall: 3s
    interval: soon
    zone_offset: Berlin
budgets:
  passes: "two"
  memory: lots
  passes: 3
policy: 7
sources:
  poll: {interval: 10}
  kafka: {brokers: {a: b}, sasl: {mechanism: MAGIC}}
http:
  adress: x
  body_limit: -1
telemetry: {log_level: loud}
`)
	_, err := config.Load(config.Input{File: name, Env: []string{"TIDEMARK_BUDGETS_CALLS=many", "TIDEMARK_BUDGETS_PASSES=0"}, Flags: map[string]string{"http.rate": "x"}})
	if !errors.Is(err, storage.ErrRefused) || storage.Hint(err) == "" {
		t.Fatalf("got %v", err)
	}
	var f *config.Faults
	if !errors.As(err, &f) || !strings.Contains(f.All[0].Error(), ":1: ") || strings.Contains(f.All[len(f.All)-1].Error(), ".yaml:") {
		t.Errorf("not in the order of lines: %v", err)
	}
	for _, want := range []string{
		name + ":1: unknown key tabels; did you mean tables?",
		name + ":3: tables[0].path is missing",
		name + ":5: unknown key tables[1].intervall; did you mean interval?",
		name + `:6: tables[1].interval: "soon" is no duration`,
		"tables[1].zone_offset (" + name + `:7): "Berlin" is no offset`,
		name + `:9: budgets.passes must be a number, not "two"`,
		name + `:10: budgets.memory: "lots" is no size`,
		name + ":11: budgets.passes is given twice",
		name + `:12: policy must be settings (key: value), not "7"`,
		name + `:14: sources.poll.interval: "10" is no duration`,
		name + ":15: sources.kafka.brokers must be a list, not settings",
		name + ":17: unknown key http.adress; did you mean address?",
		name + `:18: http.body_limit: "-1" is no size`,
		`$TIDEMARK_BUDGETS_CALLS: "many" is no whole number`,
		"budgets.passes ($TIDEMARK_BUDGETS_PASSES): must be more than 0",
		`--http-rate: "x" is no whole number`,
		"telemetry.log_level (" + name + `:19): "loud" is not one of debug, info, warn, error`,
		"sources.kafka.sasl.mechanism (" + name + `:15): "MAGIC" is not one of`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

// What is right as a text and wrong as a value is said with all the rest: addresses, URLs, files that cannot be read, bounds, tables that share what they must not.
func TestValuesAreChecked(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "key.pem")
	name := write(t, `tables:
  - path: /a
    name: x
    sink: /beside
  - path: file:///a/
    name: x
  - path: /c
    aliases: [/d]
    sink: /beside
    indexes: [i, j, i]
    interval: 1ms
    policy: {attempts: -2}
    budgets: {calls: -1, memory: 1kB}
  - path: s4://bucket/t
    aliases: [/d, s4://bucket/t]
  - path: /e
    sink: /e
budgets: {memory: 1kB, temp_dir: /no/such/folder}
policy: {stuck: 1ms, grace: 6s}
sources:
  poll: {interval: 0s, look: 1ms}
  kafka:
    brokers: [broker, "b:99999", ":9092"]
    topic: "bad topic"
    tls: {enabled: true, ca: /no/such/ca.pem, key: `+secret+`}
    sasl: {mechanism: PLAIN}
sink: {lease: 1s}
storage:
  s3: {endpoint: "localhost:9000"}
  gs: {endpoint: "http://"}
  azure: {endpoint: "ftp://x"}
http: {address: "7427"}
`)
	_, err := config.Load(config.Input{File: name, Tables: []string{"/c"}, Sink: "/own", Same: func(p string) string {
		return strings.TrimSuffix(strings.TrimPrefix(p, "file://"), "/")
	}})
	if !errors.Is(err, storage.ErrRefused) {
		t.Fatal(err)
	}
	at := func(key string, line int, why string) string {
		return fmt.Sprintf("%s (%s:%d): %s", key, name, line, why)
	}
	for _, want := range []string{
		at("tables[1].path", 5, `"file:///a/" is that of tables[0], too`),
		at("tables[1].name", 6, `"x" is that of tables[0], too`),
		at("tables[2].sink", 9, `"/beside" is that of tables[0], too: each table needs a place of its own`),
		at("tables[2].indexes", 10, `"i" is named twice`),
		at("tables[2].interval", 11, "must be at least 100ms, not 1ms"),
		at("tables[2].policy.attempts", 12, "must be more than 0, or -1 for never"),
		at("tables[2].budgets.calls", 13, "must not be negative"),
		at("tables[2].budgets.memory", 13, "must be at least 1MiB, not 1000"),
		at("tables[3].path", 14, `"s4://bucket/t" has scheme "s4"`),
		at("tables[3].aliases", 15, `"/d" is that of tables[2], too`),
		at("tables[4].sink", 17, `"/e" is the table itself`),
		"tables[5].path (arguments): \"/c\" is that of tables[2], too",
		at("budgets.memory", 18, "must be at least 1MiB, not 1000"),
		at("budgets.temp_dir", 18, "stat /no/such/folder"),
		at("policy.stuck", 19, "must be at least 1s, not 1ms"),
		at("policy.grace", 19, "must be at most 5s"),
		at("sources.poll.interval", 21, "must be at least 100ms, not 0s"),
		at("sources.poll.look", 21, "must be at least 100ms, not 1ms"),
		at("sources.kafka.brokers", 23, `"broker" is not host:port`),
		at("sources.kafka.brokers", 23, `"b:99999" has no port from 1 to 65535`),
		at("sources.kafka.brokers", 23, `":9092" names no host`),
		at("sources.kafka.topic", 24, `"bad topic" is no topic's name`),
		at("sources.kafka.tls.ca", 25, "cannot be read: open /no/such/ca.pem"),
		at("sources.kafka.tls.key", 25, "cert and key belong together"),
		at("sources.kafka.tls.key", 25, "cannot be read: open "+secret),
		"sources.kafka.sasl.user (default): is missing beside a mechanism",
		"sources.kafka.sasl.password (default): is missing beside a mechanism",
		at("sink.lease", 27, "must be at least 5s, not 1s"),
		at("storage.s3.endpoint", 29, `"localhost:9000" is no URL`),
		at("storage.gs.endpoint", 30, `"http://" is no URL`),
		at("storage.azure.endpoint", 31, `"ftp://x" is no URL`),
		at("http.address", 32, `"7427" is not host:port`),
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s", want)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 32 {
		t.Errorf("%d things are said, want 32", n)
	}
	if t.Failed() {
		t.Log(err)
	}
	for _, good := range []string{"http: {address: ':7427'}", "http: {address: '[::1]:0'}", "storage: {s3: {endpoint: 'http://127.0.0.1:9000'}}",
		"sources: {kafka: {brokers: ['[::1]:9092', b:1], topic: a.b_c-D}}", "tables: [{path: /a, aliases: [/a, /b, /b], sink: 's3://b/i'}]"} {
		if _, err := config.Load(config.Input{File: write(t, good)}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	if l, err := config.Load(config.Input{File: write(t, "sources: {kafka: {topic: t}}")}); err != nil || len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "no brokers are named") {
		t.Errorf("a topic without brokers: %v, %v", l, err)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: [":                  "line 1",
		"- x":                   "the file must be settings",
		"tables: 3":             "tables must be a list",
		"tables: [[]]":          "must be settings",
		"{}\n---\n{}":           "second document",
		"x: &a {y: *a}":         "unknown key x",
		"budgets: &b {}\n# end": "",
		"http: *none":           "unknown anchor",
		"":                      "",
		"# nothing\n":           "",
		"tables:\n":             "",
		"http: null":            "",
		"a\x01b":                "yaml.yaml",
	} {
		name := filepath.Join(t.TempDir(), "yaml.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(config.Input{File: name})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if _, err := config.Load(config.Input{File: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("no file: %v", err)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("tables: [/a]\nhttp: {address: x}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		name := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := config.Load(config.Input{File: name}); err == nil {
			l.Effective()
		}
	})
}

// A cluster manager sets variables for a service that is called tidemark; they are not ours. Of others a person is told.
func TestForeignVariables(t *testing.T) {
	t.Parallel()
	l, err := config.Load(config.Input{Env: []string{"TIDEMARK_PORT=tcp://10.0.0.1:80", "TIDEMARK_PORT_80_TCP=tcp://10.0.0.1:80", "TIDEMARK_PORT_80_TCP_ADDR=10.0.0.1",
		"TIDEMARK_SERVICE_HOST=10.0.0.1", "TIDEMARK_HTTP_SERVICE_PORT=80", "TIDEMARK_TEST_LONG=1", "TIDEMARK_HTTP_ADRESS=x"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "TIDEMARK_HTTP_ADRESS") {
		t.Errorf("warnings: %q", l.Warnings)
	}
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, s := range config.Settings() {
		for _, name := range []string{s.Env(), s.Flag()} {
			if other, twice := seen[name]; twice {
				t.Errorf("%s and %s are both %s", s.Key, other, name)
			}
			seen[name] = s.Key
		}
		if s.Doc == "" {
			t.Errorf("%s is not explained", s.Key)
		}
	}
}

func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	s := struct{ P config.Secret }{"hush"}
	j, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s.P)
	for _, text := range []string{string(j), fmt.Sprint(s), fmt.Sprintf("%+v %#v %s %q %x", s, s, s.P, s.P, s.P), log.String()} {
		if strings.Contains(text, "hush") || strings.Contains(text, fmt.Sprintf("%x", "hush")) {
			t.Errorf("a secret is shown: %s", text)
		}
	}
	if s.P.Reveal() != "hush" || config.Secret("").String() != "" {
		t.Error("Reveal or the empty mask is wrong")
	}
}

// What a reload cannot take over is named, secrets among it, which are told apart and not shown.
func TestDiffer(t *testing.T) {
	t.Parallel()
	a, b := config.Default(), config.Default()
	b.Tables, b.Sources.Kafka.Brokers = []config.Table{{Path: "/a"}}, []string{}
	if d := config.Differ(&a, &b); len(d) != 0 {
		t.Errorf("%v", d)
	}
	a.HTTP.Secret, b.HTTP.Secret = "hush", "hash"
	b.HTTP.Rate, b.Sources.Kafka.Brokers = 7, []string{"b:1"}
	if d := config.Differ(&a, &b); !slices.Equal(d, []string{"sources.kafka.brokers", "http.secret", "http.rate"}) {
		t.Errorf("%v", d)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Size{"0": 0, "7": 7, "64MiB": 64 << 20, "1 GiB": 1 << 30, "5kB": 5000, "3B": 3} {
		if got, err := config.ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5GiB", "9223372036854775807GiB", "1TiB"} {
		if _, err := config.ParseSize(text); err == nil {
			t.Errorf("%q is taken for a size", text)
		}
	}
	if got := config.Size(96 << 20).String(); got != "96MiB" {
		t.Error(got)
	}
}

// The example in the documentation loads, names every setting, and says the defaults.
func TestExampleFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(testkit.Root(), "docs", "tidemark.example.yaml")
	l, err := config.Load(config.Input{File: name})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Tables) == 0 {
		t.Error("no table in the example")
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// With every commented setting in effect it loads, too, and there is nothing it leaves out.
	var lines []string
	for _, line := range strings.Split(string(b), "\n") {
		if rest, found := strings.CutPrefix(strings.TrimLeft(line, " "), "#: "); found {
			line = line[:len(line)-len(strings.TrimLeft(line, " "))] + rest
		}
		lines = append(lines, line)
	}
	// What it says of TLS needs files that are there, and TLS.
	pem, text := write(t, "pem"), strings.Join(lines, "\n")
	for _, f := range []string{"/etc/ssl/brokers.pem", "/etc/tidemark/cert.pem", "/etc/tidemark/key.pem"} {
		text = strings.ReplaceAll(text, f, pem)
	}
	all, err := config.Load(config.Input{File: write(t, strings.Replace(text, "enabled: false", "enabled: true", 1))})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range config.Settings() {
		if all.Origin[s.Key] == "default" {
			t.Errorf("the example leaves out %s", s.Key)
		}
		if s.Default == "" || s.Key == "sources.kafka.tls.enabled" {
			continue
		}
		for _, e := range all.Effective() {
			if e.Key == s.Key && e.Value != s.Default {
				t.Errorf("%s: the example says %s, the default is %s", s.Key, e.Value, s.Default)
			}
		}
	}
}

// docs/configuration.md has a row for each setting, with its default and meaning, and none for anything else.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	row := func(prefix string, all []config.Setting) {
		for _, s := range all {
			d := s.Default
			if d != "" {
				d = "`" + d + "`"
			}
			want[fmt.Sprintf("| `%s%s` | %s | %s | %s |", prefix, s.Key, s.Type, d, s.Doc)] = true
		}
	}
	row("tables[].", config.TableSettings())
	row("", config.Settings())
	for _, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(line, "| `") && !want[line] {
			t.Errorf("no such setting: %s", line)
		}
		delete(want, line)
	}
	for line := range want {
		t.Errorf("docs/configuration.md has no row: %s", line)
	}
}

// A lock that no table could have is refused where it is written.
func TestLockIsChecked(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"none": true, "process": true, "storage": true, "file": true, "file:.hoodie/.aux": true, "file:.hoodie:10m": true, "file::1m": true,
		"banana": false, "file:": false, "file:../x": false, "file:.hoodie:soon": false, "storage:x": false, ":x": false} {
		name := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(name, []byte("sink:\n  lock: '"+text+"'\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(config.Input{File: name})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), name+":2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
