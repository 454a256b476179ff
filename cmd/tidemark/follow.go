package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tidemark/indexer"
	"tidemark/indexer/follow"
	"tidemark/internal/config"
	"tidemark/internal/httpapi"
	"tidemark/internal/storage"
	"tidemark/otel"
	"tidemark/search"
)

func (a *app) followCommand() *cobra.Command {
	var settings settingsFlags
	c := &cobra.Command{
		Use:   "follow (TABLE... | --config FILE)",
		Short: "Follow tables until told to stop: the daemon",
		Long: `Keeps the indexes of all tables fresh, woken by commit callbacks and by polling, and says of every commit when it was covered.
Every setting of the configuration file has a flag and a variable of its own: see 'tidemark config' and docs/configuration.md.
SIGTERM ends it within 10 seconds with no work lost, SIGHUP reads the list of tables anew.`,
		Example: "  tidemark follow /data/t --http 127.0.0.1:7427\n  tidemark follow --config tidemark.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && settings.file == "" {
				return usage(c, errors.New("name a table, or a configuration with --config"))
			}
			load := func() (*config.Loaded, error) { return settings.load(c, a.sink, args) }
			l, err := load()
			if err != nil {
				return err
			}
			if len(l.Tables) == 0 && l.HTTP.Address == "" {
				return &hinted{err: fmt.Errorf("%s names no table, and nothing else to do: %w", settings.file, storage.ErrRefused),
					hint: "add a table (tables: [PATH]); docs/tidemark.example.yaml is an example"}
			}
			return a.daemon(c.Context(), l, load)
		},
	}
	settings.add(c)
	return c
}

// daemon runs the follower and its server until ctx ends.
func (a *app) daemon(ctx context.Context, l *config.Loaded, reload func() (*config.Loaded, error)) error {
	log := a.logger(l.Telemetry)
	for _, w := range l.Warnings {
		log.Warn("variable not used", "reason", w)
	}
	places := newPlaces(l.Storage, log)
	telemetry, err := otel.New(ctx, otel.Config{Version: buildVersion().Version, Log: log})
	if err != nil {
		return err
	}
	var f *follow.Follower
	messages, err := newMessages(l.Sources.Kafka, log, func() { wakeAll(f) })
	if err != nil {
		return err
	}
	cfg := followConfig(l, places, log, &teller{app: a}, telemetry)
	cfg.Owns, cfg.Forget = messages.owns, telemetry.Forget
	if f, err = follow.New(cfg, tablesOf(l.Tables)); err != nil {
		return err
	}
	messages.tell(telemetry, f)
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := telemetry.Shutdown(end); err != nil {
			log.Warn("telemetry was not sent", "error", err)
		}
	}()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	serverErr := make(chan error, 1)
	if l.HTTP.Address != "" { // first of all: an orchestrator asks before the first look has ended
		listener, err := net.Listen("tcp", l.HTTP.Address)
		if err != nil {
			return &hinted{err: fmt.Errorf("serve HTTP: %w", err), hint: "another program may be there: name another address with --http, or none"}
		}
		log.Info("serving HTTP", "address", listener.Addr().String())
		cache := search.NewCache(0)
		telemetry.SearchCache(cache)
		server := httpapi.New(httpapi.Config{Follower: f, Metrics: telemetry.Handler(), Searches: telemetry, Cache: cache, Secret: l.HTTP.Secret, BodyLimit: int64(l.HTTP.BodyLimit), Rate: l.HTTP.Rate, MaxWait: l.HTTP.MaxWait, Log: log})
		tellHTTP(telemetry, f, server)
		running.Go(func() {
			if err := server.Serve(ctx, listener); err != nil {
				serverErr <- err
				stop()
			}
		})
	}
	running.Go(func() { a.signals(ctx, f, log, &l.Config, reload) })
	running.Go(func() {
		if whenReady(ctx, f) {
			log.Info("every table has been looked at", "tables", len(f.Tables()))
			notify("READY=1")
		}
	})
	log.Info("following", "tables", len(l.Tables))
	err = f.Run(ctx, messages.sources()...)
	notify("STOPPING=1")
	log.Info("stopped")
	select {
	case failed := <-serverErr:
		err = errors.Join(err, fmt.Errorf("serve HTTP: %w", failed))
	default:
	}
	return err
}

// signals takes over a new list of tables at each SIGHUP.
func (a *app) signals(ctx context.Context, f *follow.Follower, log *slog.Logger, began *config.Config, reload func() (*config.Loaded, error)) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		notify("RELOADING=1")
		l, err := reload()
		if err == nil && len(l.Tables) == 0 && len(f.Tables()) > 0 {
			err = &hinted{err: errors.New("the configuration names no table any more"), hint: "stop the daemon if nothing is to be followed"}
		}
		if err == nil {
			err = f.SetTables(tablesOf(l.Tables))
		}
		if err != nil {
			log.Error("reload refused, the tables stay as they were", "error", oneLine(err.Error()))
		} else {
			log.Info("reloaded", "tables", len(l.Tables))
			if keys := config.Differ(began, &l.Config); len(keys) > 0 {
				log.Warn("settings wait for a restart", "settings", strings.Join(keys, ", "))
			}
		}
		notify("READY=1")
	}
}

// whenReady waits until every table has been looked at; false if ctx ends first.
func whenReady(ctx context.Context, f *follow.Follower) bool {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, _ := f.Ready(); ok {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// notify tells the service manager, if there is one, how the daemon stands (sd_notify(3)).
func notify(state string) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	if strings.HasPrefix(name, "@") { // the abstract namespace
		name = "\x00" + name[1:]
	}
	if state == "RELOADING=1" { // it wants the moment, too
		if now, ok := monotonic(); ok {
			state += "\nMONOTONIC_USEC=" + strconv.FormatInt(now, 10)
		}
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte(state)) // nobody could do anything about it
}

// monotonic is the time since the machine was started, in microseconds.
func monotonic() (int64, bool) {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(b), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	return int64(seconds*1e6) + 10_000, err == nil // it is cut to hundredths, and a moment before the reload was asked for counts for nothing
}

// logger writes to standard error.
func (a *app) logger(t config.Telemetry) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(t.LogLevel)) // checked by config
	opt := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, at slog.Attr) slog.Attr {
		if err, ok := at.Value.Any().(error); ok {
			text := oneLine(err.Error())
			if h := storage.Hint(err); h != "" {
				text += "; " + h
			}
			return slog.String(at.Key, text)
		}
		return at
	}}
	if t.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.err, opt))
	}
	return slog.New(slog.NewTextHandler(a.err, opt))
}

// teller prints one line for each commit that was covered.
type teller struct {
	follow.Silent
	app *app

	mu sync.Mutex // guards the output
}

// coveredLine is a line for programs.
type coveredLine struct {
	Event      string           `json:"event"`
	Table      string           `json:"table"`
	Index      string           `json:"index"`
	Requested  string           `json:"requested"`
	Completed  string           `json:"completed"`
	Action     string           `json:"action"`
	Operation  string           `json:"operation"`
	Mode       string           `json:"mode"`
	Counts     map[string]int64 `json:"counts"`
	MDTInstant string           `json:"mdt_instant"`
	LagMS      *int64           `json:"lag_ms"`
}

// Covered implements follow.Observer.
func (t *teller) Covered(c indexer.CoveredInstant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lag, known := c.Lag()
	if t.app.json {
		line := coveredLine{"covered", c.Table, c.Index, c.Requested, c.Completed, c.Action, c.Operation, c.Mode, c.Counts, c.Commit, nil}
		if ms := lag.Milliseconds(); known {
			line.LagMS = &ms
		}
		_ = t.app.object(line) // the writer remembers
		return
	}
	text := fmt.Sprintf("%s  %s  %s  %s  %s: %s", time.Now().UTC().Format(time.TimeOnly), c.Table, c.Index, c.Requested, strings.ToLower(c.Operation), changes(c.Counts))
	if known {
		text += ", visible after " + duration(max(lag, 0))
	}
	t.app.say("%s", text)
}

// changes writes the counts of a commit that are not 0.
func changes(counts map[string]int64) string {
	var out []string
	for _, class := range []struct{ key, word string }{{"insert", "insert"}, {"vector_update", "update"}, {"delete", "delete"}, {"locator_refresh", "move"},
		{"unchanged", "same"}, {"unindexable", "unindexable"}} { // the words of sync and markers
		if n := counts[class.key]; n != 0 {
			out = append(out, count(n)+" "+class.word)
		}
	}
	if len(out) == 0 {
		return "no row"
	}
	return strings.Join(out, ", ")
}
