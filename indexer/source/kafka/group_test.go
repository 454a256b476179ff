package kafka

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// owned are the tables that a process owns.
func (p *process) owned(names []string) []string {
	var out []string
	for _, name := range names {
		if p.Owns(name) == Owned {
			out = append(out, name)
		}
	}
	return out
}

func TestRebalanceBetweenTwo(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		four := tables()
		names := four[:]
		a := start(w.t, "a", w.config())
		if got := a.Owns(names[0]); got != Unknown {
			t.Errorf("before it has joined: %v, want unknown", got)
		}
		settle()
		want(t, "alone, a owns", a.owned(names), names)
		for _, n := range names {
			w.produce(message(n, 1), message(n, 2))
		}
		settle()
		a.end(names[0], nil)
		a.end(names[1], nil) // the passes of the other two tables go on

		// b comes; a ends the passes of what it is about to lose, as a daemon does that waits for them.
		b := start(w.t, "b", w.config())
		settle()
		mine, his := a.owned(names), b.owned(names)
		if len(mine) != 2 || len(his) != 2 || slices.Equal(mine, his) {
			t.Fatalf("a owns %v, b owns %v: want two each", mine, his)
		}
		for _, n := range names {
			if slices.Contains(mine, n) == slices.Contains(his, n) {
				t.Errorf("%s is owned by both or none", n)
			}
			if p := b.Owns(n); p == Unknown {
				t.Errorf("b does not know whose %s is", n)
			}
		}
		// What was open when the partition went is read again by its new owner, and nothing else.
		var open []string
		for _, n := range his {
			if n == names[2] || n == names[3] {
				open = append(open, n+":"+instant(1), n+":"+instant(2))
			}
		}
		slices.Sort(open)
		want(t, "b reads again", b.got(), open)
		if n := a.Status().Counts.GivenUp; n != int64(len(open)) {
			t.Errorf("a gave up %d hints, want %d", n, len(open))
		}
		// Passes of a that end late commit nothing for b's partitions.
		before := w.committed()
		for _, n := range his {
			a.end(n, nil)
		}
		settle()
		want(t, "offsets", w.committed(), before)

		b.end("", nil)
		for _, n := range mine {
			a.end(n, nil)
		}
		settle()
		want(t, "all ended", w.committed(), map[int32]int64{0: 2, 1: 2, 2: 2, 3: 2})

		// a goes away in order: b has everything at once, and nothing twice.
		a.stop()
		settle()
		want(t, "b owns", b.owned(names), names)
		if got := a.Owns(names[0]); got != Unknown {
			t.Errorf("after its end: %v, want unknown", got)
		}
		had := len(b.got())
		w.produce(message(names[0], 3), message(names[3], 3))
		settle()
		if n := len(b.got()); n != had+2 {
			t.Errorf("%d more hints, want 2", n-had)
		}
		b.end("", nil)
		b.stop()
		want(t, "at the end", w.committed(), map[int32]int64{0: 3, 1: 2, 2: 2, 3: 3})
	})
}

func TestHandOverBeforeThePartitionGoes(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		four := tables()
		names := four[:]
		var a *process
		var events []string
		cfg := w.config()
		cfg.Rebalanced = func(ctx context.Context) {
			if a == nil {
				return
			}
			// A daemon gives up the leases of what is not owned any more, which takes it as long as the pass that is under way.
			for _, n := range names {
				if a.Owns(n) == Elsewhere {
					events = append(events, "a lets "+n+" go")
					<-time.After(2 * time.Second)
					a.end(n, nil)
				}
			}
			if _, bound := ctx.Deadline(); !bound {
				t.Error("the hand-over has no bound")
			}
		}
		s := start(w.t, "a", cfg)
		settle()
		for _, n := range names {
			w.produce(message(n, 1))
		}
		settle()
		a = s
		b := start(w.t, "b", w.config())
		settle()
		settle()
		his := b.owned(names)
		if len(his) != 2 || len(events) < 2 {
			t.Fatalf("b owns %v after %q", his, events)
		}
		// The passes ended before the partition went: their messages are not read again.
		want(t, "b reads again", b.got(), []string(nil))
		if n := a.Status().Counts.GivenUp; n != 0 {
			t.Errorf("a gave up %d hints", n)
		}
		b.stop()
		a.stop()
	})
}

func TestPartitionOfItsOwn(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		// A writer with hoodie.write.commit.callback.kafka.partition sends past the partitioner.
		four := tables()
		name := four[0]
		a := start(w.t, "a", w.config())
		settle()
		b := start(w.t, "b", w.config())
		settle()
		first, second := a, b
		if b.Owns(name) == Owned {
			first, second = b, a
		}
		for p := range int32(4) {
			if first.held[place{testTopic, p}] != nil {
				continue
			}
			r := message(name, 1)
			r.Partition = p
			w.produce(r)
			break
		}
		settle()
		if second.Owns(name) != Owned || first.Owns(name) != Owned {
			t.Errorf("owners: %v and %v; whoever reads its messages owns a table", first.Owns(name), second.Owns(name))
		}
		second.end("", nil)
		second.stop()
		settle()
		if first.Owns(name) != Owned {
			t.Error("nobody owns the table")
		}
		first.stop()
	})
}

func TestEveryTableHasAnOwner(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		// Every table's writer has a partition of its own, and all messages were read by a, before b came.
		a := start(w.t, "a", w.config())
		four := tables()
		for i, name := range four {
			r := message(name, 1)
			r.Partition = int32(i+1) % 4
			w.produce(r)
		}
		settle()
		a.end("", nil)
		b := start(w.t, "b", w.config())
		settle()
		for _, name := range four {
			if a.Owns(name) != Owned && b.Owns(name) != Owned {
				t.Errorf("%s is owned by nobody", name)
			}
		}
		b.stop()
		a.stop()
	})
}

func TestKilledOwnerLosesItsPartitions(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		cfg := w.config()
		a := start(w.t, "a", cfg)
		settle()
		w.produce(message("t", 1))
		settle()
		w.setCut(true) // a is cut off for good: to the broker it looks like a killed process
		other := w.config()
		other.dial = w.net.DialContext
		b := start(w.t, "b", other)
		pass(2 * time.Minute) // the session ends
		settle()
		want(t, "b reads", b.got(), []string{"t:" + instant(1)})
		a.end("", nil) // too late
		b.end("", nil)
		settle()
		want(t, "offsets", w.committed(), map[int32]int64{partitionOf("t", 4): 1})
		if st := a.Status(); st.Connected || !strings.Contains(st.Reason, "refused") {
			t.Errorf("status of a: %+v", st)
		}
		before := time.Now()
		a.stop()
		if took := time.Since(before); took > 8*time.Second {
			t.Errorf("stopping without a broker took %v", took)
		}
		b.stop()
	})
}

func TestTopicThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		cfg := w.config()
		cfg.Topic = "later"
		p := start(w.t, "a", cfg)
		pass(5 * time.Minute)
		if st := p.Status(); st.Connected || !strings.Contains(st.Reason, "later") {
			t.Errorf("status: %+v; want a reason that names the topic", st)
		}
		if err := w.cluster.CreateTopic("later", 1, nil); err != nil {
			t.Fatal(err)
		}
		r := message("t", 1)
		r.Topic = "later"
		w.produce(r)
		pass(2 * time.Minute)
		want(t, "hints", p.got(), []string{"t:" + instant(1)})
		if st := p.Status(); !st.Connected {
			t.Errorf("status: %+v", st)
		}
		p.stop()
	})
}
