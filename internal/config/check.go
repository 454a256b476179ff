package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidemark/internal/storage"
)

// Bounds below which a setting does harm and no good.
const (
	// leastInterval keeps polling from asking a store without a pause.
	leastInterval = 100 * time.Millisecond
	// leastLease is what a few slow calls of a store take: a lease that ends earlier is taken away in the middle of a commit, which is then made anew.
	leastLease = 5 * time.Second
	// leastStuck is longer than a slow call that is none the worse for it.
	leastStuck = time.Second
	// leastMemory is a few rows and their records.
	leastMemory = 1 << 20
	// maxGrace leaves the rest of ten seconds for a pass that must be cancelled.
	maxGrace = 5 * time.Second
)

// schemes are those of stores, as storage/open knows them.
var schemes = []string{"file", "s3", "s3a", "gs", "abfs", "abfss", "wasb", "wasbs", "mem"}

// check finds values that no setting may have.
func (l *Loaded) check() (bad []error) {
	say := func(key, format string, args ...any) {
		if l.faulty[key] && l.Origin[key] == "default" {
			return // it has been said what is wrong with it in the file
		}
		bad = append(bad, fmt.Errorf("%s (%s): %s", key, l.Origin[key], fmt.Sprintf(format, args...)))
	}
	c := l.Config
	for key, n := range map[string]int64{"budgets.passes": int64(c.Budgets.Passes), "budgets.calls": int64(c.Budgets.Calls),
		"policy.grace": int64(c.Policy.Grace), "sink.retention": int64(c.Sink.Retention), "storage.retry_for": int64(c.Storage.RetryFor),
		"storage.max_wait": int64(c.Storage.MaxWait), "storage.attempt": int64(c.Storage.Attempt), "http.body_limit": int64(c.HTTP.BodyLimit),
		"http.rate": int64(c.HTTP.Rate), "http.max_wait": int64(c.HTTP.MaxWait), "sources.kafka.max_message": int64(c.Sources.Kafka.MaxMessage)} {
		if n <= 0 {
			say(key, "must be more than 0")
		}
	}
	for key, d := range map[string]struct{ is, least time.Duration }{"sources.poll.interval": {c.Sources.Poll.Interval, leastInterval},
		"sources.poll.look": {c.Sources.Poll.Look, leastInterval}, "sink.lease": {c.Sink.Lease, leastLease}, "policy.stuck": {c.Policy.Stuck, leastStuck}} {
		if d.is < d.least {
			say(key, "must be at least %v, not %v", d.least, d.is)
		}
	}
	if c.Budgets.Memory < leastMemory {
		say("budgets.memory", "must be at least %v, not %v", Size(leastMemory), c.Budgets.Memory)
	}
	if c.Policy.Grace > maxGrace {
		say("policy.grace", "must be at most %v: the daemon ends within 10s", maxGrace)
	}
	if c.Policy.Attempts == 0 || c.Policy.Attempts < -1 {
		say("policy.attempts", "must be more than 0, or -1 for never")
	}
	if dir := c.Budgets.TempDir; dir != "" {
		if info, err := os.Stat(dir); err != nil {
			say("budgets.temp_dir", "%v", err)
		} else if !info.IsDir() {
			say("budgets.temp_dir", "%s is no folder", dir)
		}
	}
	oneOf := func(key, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			say(key, "%q is not one of %s", value, strings.Join(slices.DeleteFunc(allowed, func(s string) bool { return s == "" }), ", "))
		}
	}
	oneOf("telemetry.log_level", c.Telemetry.LogLevel, "debug", "info", "warn", "error")
	oneOf("telemetry.log_format", c.Telemetry.LogFormat, "text", "json")
	oneOf("storage.s3.path_style", c.Storage.S3.PathStyle, "", "true", "false")
	if why := badLock(c.Sink.Lock); why != "" {
		say("sink.lock", "%q: %s", c.Sink.Lock, why)
	}
	for key, text := range map[string]string{"storage.s3.endpoint": c.Storage.S3.Endpoint, "storage.gs.endpoint": c.Storage.GS.Endpoint, "storage.azure.endpoint": c.Storage.Azure.Endpoint} {
		if why := badEndpoint(text); why != "" {
			say(key, "%q %s", text, why)
		}
	}
	if a := c.HTTP.Address; a != "" {
		if why := badAddress(a, true); why != "" {
			say("http.address", "%q %s", a, why)
		}
	}
	c.Sources.Kafka.check(say, oneOf)
	slices.SortFunc(bad, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return bad
}

// legalTopic is what a broker takes for a topic's name.
var legalTopic = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

func (k Kafka) check(say func(key, format string, args ...any), oneOf func(key, value string, allowed ...string)) {
	const at = "sources.kafka."
	for _, b := range k.Brokers {
		if why := badAddress(b, false); why != "" {
			say(at+"brokers", "%q %s", b, why)
		}
	}
	switch {
	case len(k.Brokers) > 0 && k.Topic == "":
		say(at+"topic", "is missing beside brokers")
	case k.Topic != "" && !legalTopic.MatchString(k.Topic):
		say(at+"topic", "%q is no topic's name: letters, digits, '.', '_' and '-', at most 249", k.Topic)
	}
	oneOf(at+"sasl.mechanism", k.SASL.Mechanism, "", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
	switch s := k.SASL; {
	case s.Mechanism != "" && s.User == "":
		say(at+"sasl.user", "is missing beside a mechanism")
	case s.Mechanism == "" && (s.User != "" || s.Password != ""):
		say(at+"sasl.mechanism", "is missing beside a user or password")
	}
	if k.SASL.Mechanism != "" && k.SASL.Password == "" {
		say(at+"sasl.password", "is missing beside a mechanism")
	}
	if !k.TLS.Enabled && k.TLS != (TLS{}) {
		say(at+"tls.enabled", "is false, and other settings of tls are given")
	}
	if (k.TLS.Cert == "") != (k.TLS.Key == "") {
		say(at+"tls.key", "cert and key belong together")
	}
	for key, name := range map[string]string{"tls.ca": k.TLS.CA, "tls.cert": k.TLS.Cert, "tls.key": k.TLS.Key} {
		if name == "" {
			continue
		}
		if _, err := os.ReadFile(name); err != nil {
			say(at+key, "cannot be read: %v", err)
		}
	}
}

// badAddress says why a text is no host:port; "" if it is one. listen: the host may be left out, and the port be 0.
func badAddress(text string, listen bool) string {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "is not host:port"
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 0 || n > 65535 || n == 0 && !listen {
		return fmt.Sprintf("has no port from 1 to 65535: %q", port)
	}
	if host == "" && !listen {
		return "names no host"
	}
	return ""
}

// badEndpoint says why a text is not the URL of a server; "" if it is, or is empty.
func badEndpoint(text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "is no URL: write http://HOST:PORT or https://HOST"
	}
	return ""
}

// badStore says why no store can be at a path or URL; "" if one may.
func badStore(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	switch {
	case !found:
		return ""
	case !slices.Contains(schemes, scheme):
		return fmt.Sprintf("has scheme %q, and there are only local paths and %s", scheme, strings.Join(schemes[:len(schemes)-1], "://, ")+"://")
	case strings.Trim(rest, "/") == "":
		return "names no place"
	}
	return ""
}

// checkTables finds what no table may have, and what two of them may not share. same makes names of one path equal.
func (l *Loaded) checkTables(same func(string) string) (bad []error) {
	names, paths, sinks := map[string]string{}, map[string]string{}, map[string]string{}
	for i, t := range l.Tables {
		say := func(key, format string, args ...any) {
			where := l.tableOrigin(i, key)
			bad = append(bad, fmt.Errorf("tables[%d].%s (%s): %s", i, key, where, fmt.Sprintf(format, args...)))
		}
		twice := func(seen map[string]string, key, value, shown, why string) {
			if other, ok := seen[value]; ok {
				say(key, "%q is that of %s, too%s", shown, other, why)
				return
			}
			seen[value] = fmt.Sprintf("tables[%d]", i)
		}
		if t.Path == "" {
			continue // said already
		}
		if why := badStore(t.Path); why != "" {
			say("path", "%q %s", t.Path, why)
		}
		if t.Name != "" {
			twice(names, "name", t.Name, t.Name, "")
		}
		own := map[string]bool{}
		for n, p := range append([]string{t.Path}, t.Aliases...) {
			if own[same(p)] {
				continue
			}
			own[same(p)] = true
			twice(paths, []string{"path", "aliases"}[min(n, 1)], same(p), p, "")
		}
		if t.Sink != "" {
			if why := badStore(t.Sink); why != "" {
				say("sink", "%q %s", t.Sink, why)
			}
			if same(t.Sink) == same(t.Path) {
				say("sink", "%q is the table itself; leave it out, and the indexes lie inside", t.Sink)
			}
			twice(sinks, "sink", same(t.Sink), t.Sink, ": each table needs a place of its own")
		}
		for n, x := range t.Indexes {
			if slices.Contains(t.Indexes[:n], x) {
				say("indexes", "%q is named twice", x)
			}
		}
		if t.Interval != 0 && t.Interval < leastInterval {
			say("interval", "must be at least %v, not %v", leastInterval, t.Interval)
		}
		if t.Budgets.Calls < 0 {
			say("budgets.calls", "must not be negative")
		}
		if t.Budgets.Memory != 0 && t.Budgets.Memory < leastMemory {
			say("budgets.memory", "must be at least %v, not %v", Size(leastMemory), t.Budgets.Memory)
		}
		if t.Policy.Attempts < -1 {
			say("policy.attempts", "must be more than 0, or -1 for never")
		}
		if _, err := ParseZoneOffset(t.ZoneOffset); err != nil {
			say("zone_offset", "%v", err)
		}
	}
	return bad
}

// tableOrigin says where a setting of a table comes from.
func (l *Loaded) tableOrigin(i int, key string) string {
	if i < len(l.tableLines) {
		if line, ok := l.tableLines[i][key]; ok {
			return fmt.Sprintf("%s:%d", l.file, line)
		}
		return fmt.Sprintf("%s:%d", l.file, l.tableLines[i]["path"])
	}
	return "arguments"
}

// badLock says why a text names no lock whatever the table is; "" if it may. The locks themselves are made for a table's store.
func badLock(text string) string {
	kind, rest, more := strings.Cut(text, ":")
	switch {
	case !slices.Contains([]string{"", "none", "process", "storage", "file"}, kind) || kind == "" && more:
		return "there is no such lock: write none, process, storage, file, file:DIR or file:DIR:EXPIRE"
	case more && kind != "file":
		return kind + " takes no more words"
	case more && rest == "":
		return "the directory after file: is missing: write file, file:DIR or file:DIR:EXPIRE"
	case !more:
		return ""
	}
	dir, expire, timed := strings.Cut(rest, ":")
	if dir != "" && storage.CheckPath("open lock", dir) != nil {
		return "its directory is not a clean path inside the table, such as .hoodie/.aux"
	}
	if d, err := time.ParseDuration(expire); timed && (err != nil || d < 0) {
		return "its expiry is no duration: write it like file:.hoodie:10m"
	}
	return ""
}
