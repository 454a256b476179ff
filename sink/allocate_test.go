package sink

import (
	"errors"
	"slices"
	"testing"
	"time"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

func TestAllocate(t *testing.T) {
	t.Parallel()
	t0 := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	const newest = "20261130020922678"
	for _, c := range []struct {
		name      string
		state     mdt.State
		newest    string
		age       time.Duration
		taken     []string // on the MDT timeline
		data      []string // on the data timeline
		want      string   // id; "" = an error
		wantUntil bool     // the error names a time
		wantCount int
	}{
		{name: "first id follows the newest data time", newest: newest, age: time.Hour, want: "20261130020922679", wantCount: 1},
		{name: "never below an id that was allocated", newest: newest, age: time.Hour, state: mdt.State{LastTime: "20261130020922700", NewestSeen: newest, Allocated: 2}, want: "20261130020922701", wantCount: 3},
		{name: "newest ever seen counts though it is gone", newest: newest, age: time.Hour, state: mdt.State{NewestSeen: "20261130030000000"}, want: "20261130030000001", wantCount: 1},
		{name: "a newer data time starts the count anew", newest: newest, state: mdt.State{NewestSeen: "20261130010000000", LastTime: "20261130010000008", Allocated: 4}, want: "20261130020922679", wantCount: 1},
		{name: "carries as on a calendar", newest: "20261231235959999", age: time.Hour, want: "20270101000000000", wantCount: 1},
		{name: "a time of two-digit seconds stands for its last millisecond", newest: "20261130020922999", age: time.Hour, want: "20261130020923000", wantCount: 1},
		{name: "skips an id that is taken", newest: newest, age: time.Hour, taken: []string{"20261130020922679"}, want: "20261130020922680", wantCount: 1},
		{name: "skips a completion that is taken", newest: newest, age: time.Hour, taken: []string{"20261130020922680"}, want: "20261130020922681", wantCount: 1},
		{name: "skips the millisecond before a data instant", newest: newest, age: time.Hour, data: []string{"20261130020922681"}, want: "20261130020922682", wantCount: 1},
		{name: "the millisecond before an MDT instant is free", newest: newest, age: time.Hour, taken: []string{"20261130020922681"}, want: "20261130020922679", wantCount: 1},
		{name: "the fourth id while the file is young", newest: newest, age: 9 * time.Second, state: mdt.State{NewestSeen: newest, LastTime: "20261130020922684", Allocated: 3}, want: "20261130020922685", wantCount: 4},
		{name: "no fifth id while the file is young", newest: newest, age: 9 * time.Second, state: mdt.State{NewestSeen: newest, LastTime: "20261130020922686", Allocated: 4}, wantUntil: true},
		{name: "a file from the future is young", newest: newest, age: -time.Hour, state: mdt.State{NewestSeen: newest, Allocated: 4}, wantUntil: true},
		{name: "a fifth id once it is old", newest: newest, age: 10 * time.Second, state: mdt.State{NewestSeen: newest, LastTime: "20261130020922686", Allocated: 4}, want: "20261130020922687", wantCount: 5},
		{name: "the last values of 5,000 ms", newest: newest, age: time.Hour, state: mdt.State{NewestSeen: newest, LastTime: "20261130020927676"}, want: "20261130020927677", wantCount: 1},
		{name: "beyond 5,000 ms", newest: newest, age: time.Hour, state: mdt.State{NewestSeen: newest, LastTime: "20261130020927677"}},
		{name: "no completed instant", age: time.Hour},
		{name: "never in the reserved range", newest: "00000000000000010", age: time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := c.state
			id, completion, err := allocate(&st, seen{newest: c.newest, file: t0.Add(-c.age), now: t0,
				taken:  func(s string) bool { return slices.Contains(c.taken, s) || slices.Contains(c.data, s) },
				onData: func(s string) bool { return slices.Contains(c.data, s) }})
			if c.want == "" {
				var wait *WaitError
				if err == nil || c.newest > minNewestID && !errors.As(err, &wait) {
					t.Fatalf("got %s, %v", id, err)
				}
				if wait != nil && wait.Until.IsZero() == c.wantUntil {
					t.Errorf("until %v", wait.Until)
				}
				if wait != nil && !errors.Is(err, storage.ErrStale) {
					t.Errorf("kind of %v", err)
				}
				return
			}
			if err != nil || id != c.want || completion <= id || st.LastTime != completion || st.Allocated != c.wantCount {
				t.Fatalf("got %s, %s, %v; state %+v", id, completion, err, st)
			}
		})
	}
}
