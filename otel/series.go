package otel

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// scope names this program as the origin of spans and metrics.
const scope = "tidemark"

// series holds the present values of all metrics. The SDK's own instruments never forget a label set, and a table that is gone must
// disappear: so the values are kept here, and handed to the SDK when it collects.
type series struct {
	now   func() time.Time
	since time.Time

	mu     sync.Mutex
	points map[string]map[string]*point // by metric and by labels
	before []func()                     // called before collecting, without the lock
}

var _ metric.Producer = (*series)(nil)

// point is one series.
type point struct {
	labels []string
	value  float64
	grows  time.Time // not zero: value is an age that was true then
	counts []uint64  // of a histogram, by bucket
}

func newSeries(now func() time.Time) *series {
	return &series{now: now, since: now(), points: map[string]map[string]*point{}}
}

// ask has a function called before each collection, which may be under way.
func (s *series) ask(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = append(s.before, fn)
}

// at returns a series, which is made if it is new. The lock is held.
func (s *series) at(metric string, labels []string) *point {
	all := s.points[metric]
	if all == nil {
		all = map[string]*point{}
		s.points[metric] = all
	}
	key := strings.Join(labels, "\x00")
	p := all[key]
	if p == nil {
		p = &point{labels: slices.Clone(labels)}
		all[key] = p
	}
	return p
}

// set sets a gauge, or a counter that someone else counts.
func (s *series) set(metric string, value float64, labels ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.at(metric, labels)
	p.value, p.grows = value, time.Time{}
}

// age sets a gauge that grows as time passes.
func (s *series) age(metric string, value float64, labels ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.at(metric, labels)
	p.value, p.grows = value, s.now()
}

// add adds to a counter.
func (s *series) add(metric string, n float64, labels ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at(metric, labels).value += n
}

// record takes one value into a histogram.
func (s *series) record(metric string, bounds []float64, value float64, labels ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.at(metric, labels)
	if p.counts == nil {
		p.counts = make([]uint64, len(bounds)+1)
	}
	i, _ := slices.BinarySearch(bounds, value) // bounds are inclusive
	p.counts[i]++
	p.value += value
}

// drop removes the series of a metric, or of all if it is "", whose labels begin with these.
func (s *series) drop(metric string, labels ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, all := range s.points {
		if metric != "" && name != metric {
			continue
		}
		for key, p := range all {
			if len(p.labels) >= len(labels) && slices.Equal(p.labels[:len(labels)], labels) {
				delete(all, key)
			}
		}
	}
}

// dropTable removes all series of a table.
func (s *series) dropTable(table string) {
	for _, m := range Metrics {
		if len(m.Labels) > 0 && m.Labels[0] == "table" {
			s.drop(m.Name, table)
		}
	}
}

// Produce implements metric.Producer: everything, in the order of Metrics and of labels.
func (s *series) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	s.mu.Lock()
	before := slices.Clone(s.before)
	s.mu.Unlock()
	for _, fn := range before {
		fn()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	out := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: scope}}
	for _, m := range Metrics {
		if all := s.points[m.Name]; len(all) > 0 {
			d, err := m.data(all, s.since, now)
			if err != nil {
				return nil, err
			}
			out.Metrics = append(out.Metrics, metricdata.Metrics{Name: m.Name, Description: m.Help, Unit: m.unit(), Data: d})
		}
	}
	return []metricdata.ScopeMetrics{out}, nil
}

// data are a metric's series in the SDK's form.
func (m Metric) data(all map[string]*point, since, now time.Time) (metricdata.Aggregation, error) {
	var values []metricdata.DataPoint[float64]
	var histograms []metricdata.HistogramDataPoint[float64]
	for _, p := range sorted(all) {
		if len(p.labels) != len(m.Labels) {
			return nil, fmt.Errorf("metric %s: labels %q do not fit %q", m.Name, p.labels, m.Labels)
		}
		var kv []attribute.KeyValue
		for i, name := range m.Labels {
			kv = append(kv, attribute.String(name, p.labels[i]))
		}
		set := attribute.NewSet(kv...)
		if m.Kind == Histogram {
			h := metricdata.HistogramDataPoint[float64]{Attributes: set, StartTime: since, Time: now, Bounds: m.buckets,
				BucketCounts: slices.Clone(p.counts), Sum: p.value}
			for _, n := range p.counts {
				h.Count += n
			}
			histograms = append(histograms, h)
			continue
		}
		value := p.value
		if !p.grows.IsZero() {
			value += now.Sub(p.grows).Seconds()
		}
		values = append(values, metricdata.DataPoint[float64]{Attributes: set, StartTime: since, Time: now, Value: value})
	}
	switch m.Kind {
	case Histogram:
		return metricdata.Histogram[float64]{DataPoints: histograms, Temporality: metricdata.CumulativeTemporality}, nil
	case Counter:
		return metricdata.Sum[float64]{DataPoints: values, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}, nil
	}
	return metricdata.Gauge[float64]{DataPoints: values}, nil
}

func sorted(all map[string]*point) []*point {
	var out []*point
	for _, p := range all {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *point) int { return slices.Compare(a.labels, b.labels) })
	return out
}
