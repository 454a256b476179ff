package otel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	api "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"tidemark/internal/storage"
)

// Config is what telemetry needs to know. The zero value works.
type Config struct {
	// Version is the program's. Defaults to "unknown".
	Version string
	// Log gets failures to send. Defaults to nowhere.
	Log *slog.Logger
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Getenv looks up which of the standard OTEL_… variables are set; the exporters themselves read the process's. Defaults to os.Getenv.
	Getenv func(string) string
	// Spans takes the spans instead of OTLP. Defaults to OTLP where it is set up, else nothing.
	Spans sdktrace.SpanExporter
}

// Telemetry holds the metrics and makes the traces of one process.
type Telemetry struct {
	series  *series
	traces  *traces
	handler http.Handler
	stop    []func(context.Context) error

	mu      sync.Mutex
	commits map[[2]string]string       // the last commit of ours, by table and index
	indexes map[string]map[string]bool // that have series, by table
}

// New sets telemetry up. Metrics and traces are sent by OTLP where the standard variables name an endpoint; a value of theirs that
// cannot be followed is refused.
func New(ctx context.Context, cfg Config) (*Telemetry, error) {
	if cfg.Version == "" {
		cfg.Version = "unknown"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	// What the environment says of the resource comes last: it wins.
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "tidemark"), attribute.String("service.version", cfg.Version)), resource.WithFromEnv())
	if err != nil && res == nil {
		return nil, fmt.Errorf("describe this process: %w", err)
	}
	t := &Telemetry{series: newSeries(cfg.Now), commits: map[[2]string]string{}, indexes: map[string]map[string]bool{}}
	t.series.set(buildInfo, 1, cfg.Version)
	if err := t.metrics(ctx, cfg, res); err != nil {
		return nil, errors.Join(err, t.Shutdown(ctx))
	}
	if err := t.tracing(ctx, cfg, res); err != nil {
		return nil, errors.Join(err, t.Shutdown(ctx))
	}
	api.SetErrorHandler(api.ErrorHandlerFunc(func(err error) { cfg.Log.Warn("telemetry", "error", err) }))
	return t, nil
}

// metrics sets up the page for Prometheus, and sending by OTLP.
func (t *Telemetry) metrics(ctx context.Context, cfg Config, res *resource.Resource) error {
	registry := prometheus.NewRegistry()
	page, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithProducer(t.series), exporter.WithoutScopeInfo(),
		exporter.WithoutTargetInfo(), exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithoutSuffixes))
	if err != nil {
		return fmt.Errorf("set up metrics: %w", err)
	}
	t.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	opts := []metric.Option{metric.WithResource(res), metric.WithReader(page)}
	protocol, err := endpoint(cfg.Getenv, "METRICS")
	if err != nil {
		return err
	}
	if protocol != "" {
		var out metric.Exporter
		if protocol == "grpc" {
			out, err = otlpmetricgrpc.New(ctx)
		} else {
			out, err = otlpmetrichttp.New(ctx)
		}
		if err != nil {
			return fmt.Errorf("set up metrics by OTLP: %w", err)
		}
		opts = append(opts, metric.WithReader(metric.NewPeriodicReader(out, metric.WithProducer(t.series))))
	}
	p := metric.NewMeterProvider(opts...)
	t.stop = append(t.stop, p.Shutdown)
	return nil
}

// tracing sets up spans.
func (t *Telemetry) tracing(ctx context.Context, cfg Config, res *resource.Resource) error {
	out := cfg.Spans
	if out == nil {
		protocol, err := endpoint(cfg.Getenv, "TRACES")
		if err != nil {
			return err
		}
		switch protocol {
		case "":
			return nil
		case "grpc":
			out, err = otlptracegrpc.New(ctx)
		default:
			out, err = otlptracehttp.New(ctx)
		}
		if err != nil {
			return fmt.Errorf("set up traces by OTLP: %w", err)
		}
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(out), sdktrace.WithIDGenerator(derived{}))
	t.traces = newTraces(p.Tracer(scope))
	t.stop = append(t.stop, p.Shutdown)
	return nil
}

// endpoint says by which protocol a signal is sent by OTLP: "" where the standard variables name no endpoint or turn it off.
func endpoint(getenv func(string) string, signal string) (string, error) {
	switch {
	case getenv("OTEL_SDK_DISABLED") == "true":
		return "", nil
	case getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") == "":
		return "", nil
	}
	switch which := getenv("OTEL_" + signal + "_EXPORTER"); which {
	case "", "otlp":
	case "none":
		return "", nil
	default:
		return "", refuse("OTEL_"+signal+"_EXPORTER", which, "otlp or none; Prometheus reads /metrics in any case")
	}
	name := "OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL"
	protocol := getenv(name)
	if protocol == "" {
		name = "OTEL_EXPORTER_OTLP_PROTOCOL"
		protocol = getenv(name)
	}
	switch protocol {
	case "", "http/protobuf":
		return "http/protobuf", nil
	case "grpc":
		return protocol, nil
	}
	return "", refuse(name, protocol, "http/protobuf or grpc")
}

func refuse(name, value, known string) error {
	return &storage.Error{Op: "read", Path: name, Hint: "set it to " + known, Err: fmt.Errorf("%q: %w", value, storage.ErrUnsupported)}
}

// Handler serves the metrics for Prometheus.
func (t *Telemetry) Handler() http.Handler { return t.handler }

// Shutdown sends what waits and ends everything. It blocks until ctx ends at the latest.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	var errs []error
	for _, stop := range t.stop {
		errs = append(errs, stop(ctx))
	}
	t.stop = nil
	return errors.Join(errs...)
}
