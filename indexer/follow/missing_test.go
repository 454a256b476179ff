package follow_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/coverage"
	"tidemark/indexer/follow"
	"tidemark/indexer/indexertest"
	"tidemark/indexer/source"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// counting counts passes without failure, beside what told keeps.
type counting struct {
	told
	counts     sync.Mutex
	ok, failed int
}

// Pass implements follow.Observer.
func (o *counting) Pass(_ string, err error, _ time.Duration) {
	o.counts.Lock()
	defer o.counts.Unlock()
	if err != nil {
		o.failed++
	} else {
		o.ok++
	}
}

func (o *counting) passes() (ok, failed int) {
	o.counts.Lock()
	defer o.counts.Unlock()
	return o.ok, o.failed
}

// A table at whose path there is none is absent, in the metrics, too, and no look at it is one without failure.
func TestFollowSaysThatATableIsMissing(t *testing.T) {
	t.Parallel()
	indexertest.InBubble(t, func(t *testing.T) {
		metrics := &counting{}
		f := launch(t, follow.Config{Observer: metrics}, nil, follow.TableConfig{URL: "/typo"})
		time.Sleep(time.Minute)
		synctest.Wait()
		v := f.view("/typo")
		if v.State != coverage.StateAbsent || v.Fresh || !strings.Contains(v.Reason, "does not exist yet; it is waited for") {
			t.Errorf("state %q: %s", v.State, v.Reason)
		}
		if len(v.Indexes) != 1 || v.Indexes[0].Index != nil || v.Indexes[0].Reason != v.Reason || v.Indexes[0].Next == "" || metrics.state() != coverage.StateAbsent {
			t.Errorf("metrics %q, %+v", metrics.state(), v.Indexes)
		}
		if ok, failed := metrics.passes(); ok > 0 || failed == 0 {
			t.Errorf("%d passes without failure, %d with", ok, failed)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// What is proposed for a table whose indexes lie beside it names that place.
func TestFollowProposesCommandsWithThePlaceBeside(t *testing.T) {
	t.Parallel()
	st := indexertest.Store(t, "cow_basic")
	indexertest.InBubble(t, func(t *testing.T) {
		f := launch(t, follow.Config{}, map[string]storage.Store{"/t": st}, follow.TableConfig{URL: "/t", Sink: "/be side"})
		synctest.Wait()
		if v := f.view("/t"); v.Sink != "/be side" || len(v.Indexes) != 1 || v.Indexes[0].Next != "tidemark index create /t --sink '/be side' --column embedding" {
			t.Errorf("%+v", v)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// Where the place beside a table is missing, that is said, not that the table is; and a table that comes by a reload makes nobody unready.
func TestFollowSaysThatThePlaceBesideIsMissing(t *testing.T) {
	t.Parallel()
	l := late(t, "mor_basic")
	indexertest.InBubble(t, func(t *testing.T) {
		f := launch(t, follow.Config{Open: func(_ context.Context, c follow.TableConfig) (mdt.Place, error) {
			if c.Sink != "" {
				return mdt.Place{}, &storage.Error{Op: "open", Path: "file://" + c.Sink, Err: storage.ErrNotFound, Hint: "make it"}
			}
			return mdt.Inside(l.st), nil
		}}, nil, follow.TableConfig{URL: "/t", Sink: "/beside"})
		synctest.Wait()
		v := f.view("/t")
		if v.State != coverage.StateAbsent || !strings.Contains(v.Reason, "place beside the table, /beside, does not exist") || v.Indexes[0].Next != "make it" {
			t.Errorf("state %s: %s; %+v", v.State, v.Reason, v.Indexes)
		}
		if ok, why := f.Ready(); !ok {
			t.Error(why)
		}
		if err := f.SetTables([]follow.TableConfig{{URL: "/t", Sink: "/beside"}, {URL: "/more"}}); err != nil {
			t.Fatal(err)
		}
		if ok, why := f.Ready(); !ok {
			t.Errorf("after a reload: %s", why)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// Nothing that was said of a table holds once it is deleted, whole or only what makes it a table; and it is followed when it is there again.
func TestFollowForgetsADeletedTable(t *testing.T) {
	t.Parallel()
	for _, below := range []string{"", ".hoodie/hoodie.properties"} {
		l := late(t, "mor_basic")
		indexertest.InBubble(t, func(t *testing.T) {
			metrics := &counting{}
			const interval = 5 * time.Second
			f := launch(t, follow.Config{Interval: interval, Look: time.Hour, Observer: metrics}, map[string]storage.Store{"/t": l.st})
			time.Sleep(time.Minute)
			synctest.Wait()
			if v := f.view("/t"); !v.Fresh {
				t.Fatalf("before: %+v", v)
			}
			b, _, err := l.st.ReadFile(t.Context(), ".hoodie/hoodie.properties")
			if err != nil {
				t.Fatal(err)
			}
			remove(t, l.st, below)
			time.Sleep(2 * interval) // properties are looked for again and again: a writer may be replacing them
			synctest.Wait()
			before, _ := metrics.passes()
			for range 2 { // at once, and for as long as it is gone
				v := f.view("/t")
				if v.Fresh || v.State != coverage.StateAbsent || metrics.state() != coverage.StateAbsent || !strings.Contains(v.Reason, "deleted") {
					t.Errorf("%q: fresh %v, state %s, metrics %s: %s", below, v.Fresh, v.State, metrics.state(), v.Reason)
				}
				for _, s := range v.Indexes {
					if s.Fresh || s.State != coverage.StateAbsent || s.LagInstants != nil || s.LagSeconds != nil || s.Frontier != nil || !strings.Contains(s.Reason, "deleted") {
						t.Errorf("%q: %+v", below, s)
					}
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
			}
			if ok, _ := metrics.passes(); ok != before {
				t.Errorf("%q: %d passes without failure over a table that is gone", below, ok-before)
			}
			if below != "" {
				if _, err := l.st.Create(t.Context(), below, b); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * interval)
				synctest.Wait()
				if v := f.view("/t"); !v.Fresh || metrics.state() != coverage.StateFresh {
					t.Errorf("afterwards: %+v", v)
				}
			}
			if err := f.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A callback for a table that is not followed is said, once for each path, whatever source it came by.
func TestFollowSaysWhoseCallbacksLeadNowhere(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	f, err := follow.New(follow.Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f.Hint(source.Hint{Table: "/typo", Instant: "20261130021333638"})
	}
	if n := strings.Count(log.String(), "path=/typo"); n != 1 || f.Unknown() != 3 {
		t.Errorf("%d lines, %d counted: %s", n, f.Unknown(), log.String())
	}
}
