package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"

	"tidemark/internal/storage"
)

// Input is where settings come from, each overriding the one before. The zero value gives the defaults.
type Input struct {
	// File is the name of a YAML file; "" for none.
	File string
	// Env is the environment, as os.Environ gives it.
	Env []string
	// Flags are texts by key.
	Flags map[string]string
	// Tables are added to those of the file.
	Tables []string
}

// Loaded is an effective configuration.
type Loaded struct {
	Config
	// Origin says by key where a value came from: "default", "FILE:LINE", "$VARIABLE" or "--flag".
	Origin map[string]string
	// Warnings are variables that begin like ours and are none.
	Warnings []string
}

// Load reads all settings. What is wrong with any of them is one error, a line each: storage.ErrRefused; a file that is not there is
// storage.ErrNotFound.
func Load(in Input) (*Loaded, error) {
	out := &Loaded{Config: Default(), Origin: map[string]string{}}
	var bad []error
	merged := koanf.New("\x00") // keys are whole: they are not taken apart
	layer := func(values map[string]any, origin func(key string) string) {
		for key := range values {
			out.Origin[key] = origin(key)
		}
		if err := merged.Load(confmap.Provider(values, ""), nil); err != nil {
			bad = append(bad, err)
		}
	}
	all := Settings()
	for _, s := range all {
		out.Origin[s.Key] = "default"
	}
	out.Origin["tables"] = "default"
	if in.File != "" {
		b, err := os.ReadFile(in.File)
		if errors.Is(err, os.ErrNotExist) {
			return nil, &storage.Error{Op: "read", Path: in.File, Err: storage.ErrNotFound, Hint: "docs/tidemark.example.yaml is one to begin with"}
		}
		if err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		f := readFile(in.File, b)
		bad = append(bad, f.bad...)
		out.Tables = f.tables
		if f.found {
			out.Origin["tables"] = in.File
		}
		layer(f.values, func(key string) string { return fmt.Sprintf("%s:%d", in.File, f.lines[key]) })
	}
	env, warnings, err := fromEnv(all, in.Env)
	out.Warnings, bad = warnings, append(bad, err...)
	layer(env, func(key string) string { return "$" + Setting{Key: key}.Env() })
	flags := map[string]any{}
	for key, text := range in.Flags {
		x, ok := field(reflect.ValueOf(&out.Config).Elem(), key)
		if !ok {
			bad = append(bad, fmt.Errorf("--%s: unknown setting", key))
			continue
		}
		v, err := parse(x.Type(), text)
		if err != nil {
			bad = append(bad, fmt.Errorf("--%s: %w", Setting{Key: key}.Flag(), err))
			continue
		}
		flags[key] = v
	}
	layer(flags, func(key string) string { return "--" + Setting{Key: key}.Flag() })
	for _, path := range in.Tables {
		out.Tables = append(out.Tables, Table{Path: path})
		if !strings.Contains(out.Origin["tables"], "arguments") {
			out.Origin["tables"] = strings.TrimPrefix(out.Origin["tables"]+", arguments", "default, ")
		}
	}
	for _, key := range merged.Keys() {
		x, _ := field(reflect.ValueOf(&out.Config).Elem(), key)
		x.Set(reflect.ValueOf(merged.Get(key)))
	}
	bad = append(bad, out.check()...)
	if len(bad) > 0 {
		return nil, &storage.Error{Op: "read configuration", Hint: "'tidemark config' prints what is in effect, docs/configuration.md every key",
			Err: fmt.Errorf("%w: %w", errors.Join(bad...), storage.ErrRefused)}
	}
	return out, nil
}

// fromEnv reads the variables that are ours.
func fromEnv(all []Setting, env []string) (values map[string]any, warnings []string, bad []error) {
	values = map[string]any{}
	byName := map[string]Setting{}
	for _, s := range all {
		byName[s.Env()] = s
	}
	var c Config
	for _, pair := range env {
		name, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, EnvPrefix) || others(name, text) {
			continue
		}
		s, known := byName[name]
		if !known {
			warnings = append(warnings, fmt.Sprintf("$%s is no setting and is not used", name))
			continue
		}
		x, _ := field(reflect.ValueOf(&c).Elem(), s.Key)
		v, err := parse(x.Type(), text)
		if err != nil {
			bad = append(bad, fmt.Errorf("$%s: %w", name, err))
			continue
		}
		values[s.Key] = v
	}
	slices.Sort(warnings)
	return values, warnings, bad
}

// others says whether a variable that begins like ours is known to be somebody else's: a cluster manager sets some for every service, and one
// may be called tidemark; tests and the S3 store have their own.
func others(name, text string) bool {
	rest := strings.TrimPrefix(name, EnvPrefix)
	return strings.HasPrefix(rest, "TEST_") || rest == "S3_PATH_STYLE" ||
		strings.Contains(rest, "SERVICE_HOST") || strings.Contains(rest, "SERVICE_PORT") || strings.HasSuffix(rest, "PORT") && strings.Contains(text, "://") ||
		strings.Contains(rest, "PORT_") && (strings.HasSuffix(rest, "_TCP") || strings.HasSuffix(rest, "_PROTO") || strings.HasSuffix(rest, "_PORT") || strings.HasSuffix(rest, "_ADDR"))
}

// maxGrace leaves the rest of ten seconds for a pass that must be cancelled.
const maxGrace = 5 * time.Second

// check finds values that no setting may have.
func (l *Loaded) check() (bad []error) {
	say := func(key, format string, args ...any) {
		bad = append(bad, fmt.Errorf("%s (%s): %s", key, l.Origin[key], fmt.Sprintf(format, args...)))
	}
	c := l.Config
	for key, n := range map[string]int64{"budgets.passes": int64(c.Budgets.Passes), "budgets.calls": int64(c.Budgets.Calls),
		"budgets.memory": int64(c.Budgets.Memory), "policy.stuck": int64(c.Policy.Stuck), "policy.grace": int64(c.Policy.Grace),
		"sources.poll.interval": int64(c.Sources.Poll.Interval), "sources.poll.look": int64(c.Sources.Poll.Look),
		"sink.lease": int64(c.Sink.Lease), "sink.retention": int64(c.Sink.Retention), "storage.retry_for": int64(c.Storage.RetryFor),
		"storage.max_wait": int64(c.Storage.MaxWait), "storage.attempt": int64(c.Storage.Attempt), "http.body_limit": int64(c.HTTP.BodyLimit),
		"http.rate": int64(c.HTTP.Rate), "http.max_wait": int64(c.HTTP.MaxWait), "sources.kafka.max_message": int64(c.Sources.Kafka.MaxMessage)} {
		if n <= 0 {
			say(key, "must be more than 0")
		}
	}
	if c.Policy.Grace > maxGrace {
		say("policy.grace", "must be at most %v: the daemon ends within 10s", maxGrace)
	}
	if c.Policy.Attempts == 0 || c.Policy.Attempts < -1 {
		say("policy.attempts", "must be more than 0, or -1 for never")
	}
	oneOf := func(key, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			say(key, "%q is not one of %s", value, strings.Join(slices.DeleteFunc(allowed, func(s string) bool { return s == "" }), ", "))
		}
	}
	oneOf("telemetry.log_level", c.Telemetry.LogLevel, "debug", "info", "warn", "error")
	oneOf("telemetry.log_format", c.Telemetry.LogFormat, "text", "json")
	oneOf("storage.s3.path_style", c.Storage.S3.PathStyle, "", "true", "false")
	oneOf("sources.kafka.sasl.mechanism", c.Sources.Kafka.SASL.Mechanism, "", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
	if why := badLock(c.Sink.Lock); why != "" {
		say("sink.lock", "%q: %s", c.Sink.Lock, why)
	}
	if k := c.Sources.Kafka; len(k.Brokers) > 0 && k.Topic == "" {
		say("sources.kafka.topic", "is missing beside brokers")
	}
	slices.SortFunc(bad, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return bad
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
