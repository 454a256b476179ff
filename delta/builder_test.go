package delta_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// story prints a batch one record a line, in order.
func story(t *testing.T, b *delta.Batch, stats []delta.KV) string {
	t.Helper()
	dec := decoder(t, delta.SchemaJSON)
	var out strings.Builder
	for _, kv := range append(slices.Clone(b.Records), stats...) {
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
			b, err := newBuilder().Build(t.Context(), []delta.Change{c.change})
			if err != nil {
				t.Fatal(err)
			}
			stats := b.Stats(func(int) delta.Counters { return delta.Counters{Live: 10, Delta: 5, Tombstone: 1} }, 500)
			if got := story(t, b, stats); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string][]delta.Change{
		"two changes of a key":        {{Key: "k", New: ver(0, 1)}, {Key: "k", New: ver(0, 2)}},
		"old cluster unknown":         {{Key: "k", Old: &delta.Version{}, New: ver(0, 1)}},
		"new vector missing":          {{Key: "k", New: &delta.Version{Routed: true}}},
		"cluster beyond the last one": {{Key: "k", New: ver(4, 1)}},
		"cluster below 0":             {{Key: "k", Old: &delta.Version{Cluster: -1, Routed: true}}},
	} {
		if _, err := newBuilder().Build(t.Context(), changes); !errors.Is(err, storage.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCountersAreHints(t *testing.T) {
	t.Parallel()
	b, err := newBuilder().Build(t.Context(), []delta.Change{{Key: "k", Old: ver(0, 7), Instant: "42"}})
	if err != nil {
		t.Fatal(err)
	}
	stats := b.Stats(func(int) delta.Counters { return delta.Counters{} }, 1)
	rec, err := decoder(t, delta.SchemaJSON).Decode(stats[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	want := delta.Counters{Live: 0, Delta: 0, Tombstone: 1}
	if got := delta.CountersOf(rec.(*delta.ClusterStats)); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// randomHistory makes commits of random changes over a few keys and returns all changes in order with the state
// before and after.
func randomHistory(r *rand.Rand) (changes []delta.Change, before, after map[string]*delta.Version) {
	before, after = map[string]*delta.Version{}, map[string]*delta.Version{}
	for i := range 6 {
		if k := fmt.Sprint("k", i); r.IntN(2) == 0 {
			before[k] = ver(float32(r.IntN(4)), int64(i))
			after[k] = before[k]
		}
	}
	for commit := range 5 {
		for i := range 6 {
			key := fmt.Sprint("k", i)
			c := delta.Change{Key: key, Old: after[key], Instant: fmt.Sprint(100 + commit)}
			switch r.IntN(4) {
			case 0:
				continue
			case 1:
				c.New = nil
			case 2:
				c.New = ver(float32(r.IntN(4)), int64(r.IntN(3)))
			case 3:
				c.New, c.Class = c.Old, delta.Unchanged
			}
			if c.Old == nil && c.New == nil {
				c.Class = delta.Unindexable
			}
			changes = append(changes, c)
			delete(after, key)
			if c.New != nil {
				after[key] = c.New
			}
		}
	}
	return changes, before, after
}

func TestReduceIsTheNetEffect(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		changes, before, after := randomHistory(r)
		net := delta.Reduce(changes)
		if !slices.IsSortedFunc(net, func(a, b delta.Change) int { return strings.Compare(a.Key, b.Key) }) {
			t.Fatalf("seed %d: not sorted", seed)
		}
		state := before
		seen := map[string]bool{}
		for _, c := range net {
			if seen[c.Key] {
				t.Fatalf("seed %d: %s twice", seed, c.Key)
			}
			seen[c.Key] = true
			if c.Old != nil && (state[c.Key] == nil || !sameVersion(state[c.Key], c.Old)) || c.Old == nil && state[c.Key] != nil {
				t.Fatalf("seed %d: old of %s is not the first one", seed, c.Key)
			}
			if c.Class == delta.Unchanged || c.Class == delta.Unindexable || c.Class == 0 {
				t.Fatalf("seed %d: class %s", seed, c.Class)
			}
			delete(state, c.Key)
			if c.New != nil {
				state[c.Key] = c.New
			}
		}
		if !maps.EqualFunc(state, after, sameVersion) {
			t.Fatalf("seed %d: net effect differs:\n%s", seed, cmp.Diff(state, after))
		}

		// The records depend neither on the order of the changes nor on the workers, and no key has both a delta
		// and a tombstone.
		b := newBuilder()
		one, err := b.Build(t.Context(), net)
		if err != nil {
			t.Fatal(err)
		}
		shuffled := slices.Clone(net)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		three, err := b.Build(t.Context(), shuffled)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(one.Records, three.Records, sameKV) || !slices.Equal(one.Touched, three.Touched) {
			t.Fatalf("seed %d: order or workers change the bytes", seed)
		}
		live := int64(0)
		for _, touched := range one.Touched {
			live += touched.Add.Live
		}
		if int(live) != len(after)-countBefore(after, net) {
			t.Fatalf("seed %d: counters add %d live rows", seed, live)
		}
	}
}

func sameVersion(a, b *delta.Version) bool {
	return bytes.Equal(a.Raw, b.Raw) && a.Locator == b.Locator
}

func sameKV(a, b delta.KV) bool {
	return a.Group == b.Group && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value)
}

// countBefore is the number of rows before the batch, computed back from its net changes.
func countBefore(after map[string]*delta.Version, net []delta.Change) int {
	n := len(after)
	for _, c := range net {
		if c.Old == nil {
			n--
		}
		if c.New == nil {
			n++
		}
	}
	return n
}

func TestReduceClasses(t *testing.T) {
	t.Parallel()
	a, moved, b := ver(1, 1), ver(1, 2), ver(2, 1)
	unknown := &delta.Version{Cluster: 1, Routed: true}
	for _, c := range []struct {
		name    string
		changes []delta.Change
		want    delta.Class // 0: nothing is left
	}{
		{"insert and delete", []delta.Change{{Key: "k", New: a}, {Key: "k", Old: a}}, 0},
		{"there and back", []delta.Change{{Key: "k", Old: a, New: b}, {Key: "k", Old: b, New: a}}, 0},
		{"insert and update", []delta.Change{{Key: "k", New: a}, {Key: "k", Old: a, New: b}}, delta.Insert},
		{"delete and insert with the same bytes", []delta.Change{{Key: "k", Old: a}, {Key: "k", New: moved}}, delta.LocatorRefresh},
		{"update and delete", []delta.Change{{Key: "k", Old: a, New: b}, {Key: "k", Old: b}}, delta.Delete},
		{"update", []delta.Change{{Key: "k", Old: a, New: b}}, delta.VectorUpdate},
		{"old bytes unknown count as changed", []delta.Change{{Key: "k", Old: unknown, New: a}}, delta.VectorUpdate},
		{"unchanged and unindexable", []delta.Change{{Class: delta.Unchanged, Key: "k", Old: a, New: a}, {Class: delta.Unindexable, Key: "u"}}, 0},
	} {
		net := delta.Reduce(c.changes)
		if c.want == 0 {
			if len(net) != 0 {
				t.Errorf("%s: got %+v", c.name, net)
			}
		} else if len(net) != 1 || net[0].Class != c.want {
			t.Errorf("%s: got %+v, want %s", c.name, net, c.want)
		}
	}
	names := ""
	for _, c := range delta.Classes() {
		names += c.String() + " "
	}
	if names != "insert vector_update locator_refresh delete unchanged unindexable " || delta.Class(99).String() != "class(99)" {
		t.Errorf("class names: %s", names)
	}
}
