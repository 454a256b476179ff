package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

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
	// Tables are added to those of the file. Their indexes lie at Sink; "" for inside.
	Tables []string
	Sink   string
	// Same makes equal what names one path. Defaults to texts as they are.
	Same func(path string) string
}

// Loaded is an effective configuration.
type Loaded struct {
	Config
	// Origin says by key where a value came from: "default", "FILE:LINE", "$VARIABLE" or "--flag".
	Origin map[string]string
	// Warnings are variables that begin like ours and are none, and settings that do nothing.
	Warnings []string

	file       string           // the file's name
	tableLines []map[string]int // of the file's tables, by key
	faulty     map[string]bool  // keys of the file whose values cannot be used
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
		out.Tables, out.file, out.tableLines, out.faulty = f.tables, in.File, f.rows, f.faulty
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
		out.Tables = append(out.Tables, Table{Path: path, Sink: in.Sink})
		if !strings.Contains(out.Origin["tables"], "arguments") {
			out.Origin["tables"] = strings.TrimPrefix(out.Origin["tables"]+", arguments", "default, ")
		}
	}
	for _, key := range merged.Keys() {
		x, _ := field(reflect.ValueOf(&out.Config).Elem(), key)
		x.Set(reflect.ValueOf(merged.Get(key)))
	}
	if in.Same == nil {
		in.Same = func(path string) string { return path }
	}
	bad = append(append(bad, out.check()...), out.checkTables(in.Same)...)
	if k := out.Sources.Kafka; len(k.Brokers) == 0 && k.Topic != "" {
		out.Warnings = append(out.Warnings, fmt.Sprintf("sources.kafka.topic (%s) does nothing: no brokers are named", out.Origin["sources.kafka.topic"]))
	}
	if len(bad) > 0 {
		return nil, &storage.Error{Op: "read configuration", Hint: "'tidemark config' prints what is in effect, docs/configuration.md every key",
			Err: &Faults{All: byLine(bad), Warnings: out.Warnings}}
	}
	return out, nil
}

// Faults are all that is wrong with a configuration, those of the file in the order of its lines. It is storage.ErrRefused.
type Faults struct {
	All      []error
	Warnings []string // that came with them
}

// Error implements error: a line for each fault.
func (f *Faults) Error() string { return errors.Join(f.All...).Error() }

// Unwrap makes it storage.ErrRefused.
func (f *Faults) Unwrap() error { return storage.ErrRefused }

// lineOf finds the line that a fault names.
var lineOf = regexp.MustCompile(`:(\d+)[):]`)

// byLine orders faults: those without a line come last.
func byLine(bad []error) []error {
	line := func(err error) int {
		m := lineOf.FindStringSubmatch(err.Error())
		if m == nil {
			return math.MaxInt
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	slices.SortStableFunc(bad, func(a, b error) int {
		return cmp.Or(cmp.Compare(line(a), line(b)), strings.Compare(a.Error(), b.Error()))
	})
	return bad
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
