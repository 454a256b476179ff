package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tidemark/indexer"
	"tidemark/indexer/follow"
	"tidemark/indexer/source"
	"tidemark/internal/config"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/lock"
	"tidemark/internal/storage/open"
	"tidemark/internal/storage/retry"
	"tidemark/sink"
)

// settingsFlags are the flags of a command that takes the whole configuration.
type settingsFlags struct {
	file   string
	values map[string]*string // by key
	short  map[string]string  // name of a short flag → key
}

// add gives a command a flag for each setting. The two that are typed by hand have short names; the others are not listed in its help.
func (s *settingsFlags) add(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&s.file, "config", "", "configuration file (YAML); docs/tidemark.example.yaml is one")
	s.values, s.short = map[string]*string{}, map[string]string{"http": "http.address", "interval": "sources.poll.interval"}
	for _, x := range config.Settings() {
		s.values[x.Key] = fs.String(x.Flag(), x.Default, x.Doc)
		_ = fs.MarkHidden(x.Flag()) // it is there
	}
	fs.String("http", "", "serve health, states, callbacks and a page at this host:port")
	fs.String("interval", "10s", "every commit is noticed within it, whatever callbacks do")
}

// load reads the configuration. Tables named as arguments have their indexes at sink, if that is given.
func (s *settingsFlags) load(c *cobra.Command, sink string, tables []string) (*config.Loaded, error) {
	given := map[string]string{}
	for key, v := range s.values {
		if c.Flags().Changed(config.Setting{Key: key}.Flag()) {
			given[key] = *v
		}
	}
	if f := c.Flags().Lookup("lock"); f != nil && f.Changed { // the flag of all commands
		given["sink.lock"] = f.Value.String()
	}
	for name, key := range s.short {
		if f := c.Flags().Lookup(name); f.Changed {
			given[key] = f.Value.String()
		}
	}
	l, err := config.Load(config.Input{File: s.file, Env: os.Environ(), Flags: given, Tables: tables, Sink: sink, Same: samePlace})
	if err != nil {
		return nil, err
	}
	for i := range l.Tables { // writers name a table by its whole path, and so do next steps that are read elsewhere
		l.Tables[i].Path, l.Tables[i].Sink = absolute(l.Tables[i].Path), absolute(l.Tables[i].Sink)
	}
	return l, follow.CheckTables(tablesOf(l.Tables))
}

// absolute makes the relative path of a local folder whole; URLs and what is whole already stay as they are.
func absolute(path string) string {
	if path == "" || remote(path) || strings.HasPrefix(path, "file:") {
		return path
	}
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// samePlace makes equal what names one table or place: of a local folder its whole path without symbolic links, as far as it exists.
func samePlace(path string) string {
	key := source.Key(path)
	if path == "" || strings.Contains(key, "://") {
		return key
	}
	key = absolute(key)
	if real, err := filepath.EvalSymlinks(key); err == nil {
		return real
	}
	return key
}

// tablesOf are the tables of a configuration as the follower takes them.
func tablesOf(all []config.Table) []follow.TableConfig {
	out := make([]follow.TableConfig, len(all))
	for i, t := range all {
		zone, _ := config.ParseZoneOffset(t.ZoneOffset) // checked by config
		out[i] = follow.TableConfig{Name: t.Name, URL: t.Path, Sink: t.Sink, Aliases: t.Aliases, Indexes: t.Indexes, Interval: t.Interval,
			Attempts: t.Policy.Attempts, Calls: t.Budgets.Calls, Memory: int64(t.Budgets.Memory), ZoneOffset: zone}
	}
	return out
}

func followConfig(l *config.Loaded, places *places, log *slog.Logger, observers ...follow.Observer) follow.Config {
	return follow.Config{
		Open: places.open, Interval: l.Sources.Poll.Interval, Look: l.Sources.Poll.Look,
		Passes: l.Budgets.Passes, Calls: l.Budgets.Calls, Memory: indexer.Memory{Changes: int64(l.Budgets.Memory), TempDir: l.Budgets.TempDir},
		Attempts: l.Policy.Attempts, Stuck: l.Policy.Stuck, Grace: l.Policy.Grace,
		Sink:     sink.Config{Lease: l.Sink.Lease, Retention: l.Sink.Retention},
		Lock:     func(place mdt.Place) (lock.Locker, error) { return lockOf(l.Sink.Lock, place) },
		Observer: follow.Observers(observers...), Log: log,
	}
}

// places opens tables, each store beyond a network once.
type places struct {
	options open.Options
	at      func(ctx context.Context, url, sink string, o open.Options) (mdt.Place, error) // openAt

	mu    sync.Mutex           // guards known
	known map[string]mdt.Place // by URL and place beside
}

func newPlaces(c config.Storage, log *slog.Logger) *places {
	p := &places{at: openAt, known: map[string]mdt.Place{}}
	p.options.Retry = retry.Config{Budget: c.RetryFor, Max: c.MaxWait, Attempt: c.Attempt, Observe: func(err error, wait time.Duration) {
		if wait >= noticed {
			log.Warn("store call failed", "error", err, "again_in", wait)
		}
	}}
	p.options.S3.Endpoint, p.options.S3.Region, p.options.S3.Profile = c.S3.Endpoint, c.S3.Region, c.S3.Profile
	if style, err := strconv.ParseBool(c.S3.PathStyle); err == nil {
		p.options.S3.PathStyle = &style
	}
	p.options.GS.Endpoint, p.options.GS.QuotaProject = c.GS.Endpoint, c.GS.Project
	p.options.Azure.Endpoint = c.Azure.Endpoint
	return p
}

// open opens a table outside the lock: one on a mount that does not answer must not hold up the others. Of several that open one table at a
// time, all get the place that was there first.
func (p *places) open(ctx context.Context, t follow.TableConfig) (mdt.Place, error) {
	key := t.URL + "\x00" + t.Sink
	p.mu.Lock()
	known, ok := p.known[key]
	p.mu.Unlock()
	if ok {
		return known, nil
	}
	place, err := p.at(ctx, t.URL, t.Sink, p.options)
	if err != nil {
		return mdt.Place{}, err
	}
	if !remote(t.URL) || t.Sink != "" && !remote(t.Sink) { // a local folder may go and come again
		return place, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.known[key]; ok {
		return known, nil
	}
	p.known[key] = place
	return place, nil
}

// remote says whether a table's store is beyond a network.
func remote(url string) bool { return strings.Contains(source.Key(url), "://") }
