package delta_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tidemark/delta"
	"tidemark/internal/storage"
	"tidemark/internal/vector/rabitq"
)

// parity routes a one-dimensional vector to cluster v[0] and encodes it with 4 bits.
type parity struct{ enc *rabitq.Encoder }

func (parity) Cluster(v []float32) int { return int(v[0]) }

func (p parity) Encode(v []float32, cluster int) rabitq.Code { return p.enc.Encode(v, nil) }

func newBuilder() *delta.Builder {
	return &delta.Builder{
		Generation: 1,
		Router:     parity{rabitq.NewEncoder(rabitq.NewRotation(1, 42), 4)},
		Segments:   []int{1, 3, 1, 64},
		Groups:     2,
	}
}

func ver(x float32, pos int64) *delta.Version {
	return &delta.Version{
		Raw: []byte(fmt.Sprint(x)), Vector: []float32{x},
		Locator: delta.Locator{Partition: "p", FileID: "f", BaseInstant: "100", Position: pos},
	}
}

// story prints what a change writes one record a line, in order, and then the counters of the clusters.
func story(t *testing.T, c delta.Change) string {
	t.Helper()
	b := newBuilder()
	n, err := b.Net(&c)
	if err != nil {
		t.Fatal(err)
	}
	var records, stats []delta.KV
	err = b.Records(c.Key, &n, func(r delta.KV, cluster int, add delta.Counters) error {
		records = append(records, r)
		stats = append(stats, b.Stats(cluster, delta.Counters{Live: 10, Delta: 5, Tombstone: 1}.Plus(add), 500))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	delta.SortKV(records)
	delta.SortKV(stats)
	dec := decoder(t, delta.SchemaJSON)
	var out strings.Builder
	for _, kv := range append(records, stats...) {
		k, err := delta.ParseKey(kv.Key)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := dec.Decode(kv.Value)
		if err != nil {
			t.Fatal(err)
		}
		if kv.Group != delta.FileGroup(kv.Key, 2) {
			t.Errorf("%x in group %d", kv.Key, kv.Group)
		}
		switch r := rec.(type) {
		case *delta.PostingDelta:
			if err := r.Check(1, 4); err != nil {
				t.Error(err)
			}
			fmt.Fprintf(&out, "g%d c%d/%d %s delta %d\n", kv.Group, k.Cluster, k.Segment, k.RecordKey, r.Locator().Position)
		case *delta.Tombstone:
			fmt.Fprintf(&out, "g%d c%d/%d %s tombstone %s %s\n", kv.Group, k.Cluster, k.Segment, k.RecordKey, r.DeleteInstant, r.DeleteReason)
		case *delta.ClusterStats:
			fmt.Fprintf(&out, "g%d c%d stats %d %d %d of %d segments at %d\n", kv.Group, k.Cluster, r.LiveCount, r.DeltaCount, r.TombstoneCount, r.ShardCount, r.LastUpdatedTs)
		}
	}
	return out.String()
}

func TestBuildFollowsTheTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change delta.Change
		want   string
	}{
		{"only in current", delta.Change{Key: "k", New: ver(0, 7)},
			"g0 c0/0 k delta 7\ng1 c0 stats 11 6 1 of 1 segments at 500\n"},
		{"only in previous", delta.Change{Key: "k", Old: ver(0, 7), Instant: "42"},
			"g0 c0/0 k tombstone 42 MANUAL\ng1 c0 stats 9 5 2 of 1 segments at 500\n"},
		{"bytes differ, cluster changed", delta.Change{Key: "k", Old: ver(0, 7), New: ver(1, 7), Instant: "42"},
			"g0 c0/0 k tombstone 42 MANUAL\ng1 c1/1 k delta 7\ng0 c1 stats 11 6 1 of 3 segments at 500\ng1 c0 stats 9 5 2 of 1 segments at 500\n"},
		{"bytes differ, same cluster: the delta alone", delta.Change{Key: "k", Old: ver(0.25, 7), New: ver(0.5, 7), Instant: "42"},
			"g0 c0/0 k delta 7\ng1 c0 stats 10 6 1 of 1 segments at 500\n"},
		{"same bytes, locator differs", delta.Change{Key: "k", Old: ver(0, 7), New: ver(0, -1), Instant: "42"},
			"g0 c0/0 k delta -1\ng1 c0 stats 10 6 1 of 1 segments at 500\n"},
		{"old bytes unknown, cluster given", delta.Change{Key: "k", Old: &delta.Version{Cluster: 2, Routed: true}, New: ver(0, 1), Instant: "42"},
			"g0 c0/0 k delta 1\ng0 c2/0 k tombstone 42 MANUAL\ng1 c0 stats 11 6 1 of 1 segments at 500\ng1 c2 stats 9 5 2 of 1 segments at 500\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := story(t, c.change); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

func TestNetRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]delta.Change{
		"old cluster unknown":         {Key: "k", Old: &delta.Version{}, New: ver(0, 1)},
		"new vector missing":          {Key: "k", New: &delta.Version{Routed: true}},
		"cluster beyond the last one": {Key: "k", New: ver(4, 1)},
		"cluster below 0":             {Key: "k", Old: &delta.Version{Cluster: -1, Routed: true}},
	} {
		if _, err := newBuilder().Net(&c); !errors.Is(err, storage.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNetEffect(t *testing.T) {
	t.Parallel()
	a, moved, b := ver(1, 1), ver(1, 2), ver(2, 1)
	unknown := &delta.Version{Cluster: 1, Routed: true}
	for _, c := range []struct {
		name    string
		changes []delta.Change
		want    bool
	}{
		{"insert and delete", []delta.Change{{New: a}, {Old: a}}, false},
		{"there and back", []delta.Change{{Old: a, New: b}, {Old: b, New: a}}, false},
		{"insert and update", []delta.Change{{New: a}, {Old: a, New: b}}, true},
		{"delete and insert with the same bytes", []delta.Change{{Old: a}, {New: moved}}, true},
		{"delete and insert of the same row", []delta.Change{{Old: a}, {New: a}}, false},
		{"update and delete", []delta.Change{{Old: a, New: b}, {Old: b}}, true},
		{"update", []delta.Change{{Old: a, New: b}}, true},
		{"old bytes unknown count as changed", []delta.Change{{Old: unknown, New: a}}, true},
	} {
		net, err := newBuilder().Net(&c.changes[0])
		for _, later := range c.changes[1:] {
			n, netErr := newBuilder().Net(&later)
			net, err = net.Then(n), errors.Join(err, netErr)
		}
		if err != nil || net.Effect() != c.want {
			t.Errorf("%s: effect %v, %v", c.name, net.Effect(), err)
		}
	}
}

func TestNetComesBack(t *testing.T) {
	t.Parallel()
	for _, c := range []delta.Change{
		{Key: "k", New: ver(1, 1), Instant: "42"},
		{Key: "k", Old: ver(1, 1)},
		{Key: "k", Old: &delta.Version{Cluster: 3, Routed: true}, New: ver(2, -1), Also: []*delta.Version{ver(0, 1), ver(3, 1)}},
		{},
	} {
		n, err := newBuilder().Net(&c)
		if err != nil {
			t.Fatal(err)
		}
		b := n.AppendTo(nil)
		got, err := delta.ParseNet(b)
		if err != nil || cmp.Diff(n, got, cmpopts.EquateEmpty()) != "" {
			t.Errorf("%+v: got %+v, %v", n, got, err)
		}
		for i := range b {
			if _, err := delta.ParseNet(b[:i]); !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("%d of %d bytes: %v", i, len(b), err)
			}
		}
	}
}

func TestClassNames(t *testing.T) {
	t.Parallel()
	names := ""
	for _, c := range delta.Classes() {
		names += c.String() + " "
	}
	if names != "insert vector_update locator_refresh delete unchanged unindexable " || delta.Class(99).String() != "class(99)" {
		t.Errorf("class names: %s", names)
	}
}
