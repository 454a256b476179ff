package model_test

import (
	"os"
	"testing"

	"tidemark/internal/model"
	"tidemark/internal/testkit"
)

// scope is one world that is explored.
type scope struct {
	name   string
	bounds model.Bounds
	long   bool
}

var scopes = []scope{
	{"any order", model.Bounds{Instants: 5, Writers: 3, Equal: true, Split: true, Tidemarks: 1}, false},
	{"times before files", model.Bounds{Instants: 4, Writers: 3, Split: true, Hidden: true, Lag: true, Tidemarks: 1}, false},
	{"archive and table services", model.Bounds{Instants: 4, Writers: 3, Services: 1, Archive: true, Tidemarks: 1}, false},
	{"rollback and restore", model.Bounds{Instants: 3, Writers: 3, Undoings: 1, Undo: true, Archive: true, Equal: true, Tidemarks: 1}, false},
	{"two Tidemarks", model.Bounds{Instants: 3, Writers: 2, Crashes: 1, Takeovers: 1, MDT: 1, Tidemarks: 2, Archive: true}, false},
	{"archive", model.Bounds{Instants: 5, Writers: 3, Archive: true, Equal: true, Tidemarks: 1}, true},
	{"table services in any order", model.Bounds{Instants: 5, Writers: 3, Services: 1, Equal: true, Archive: true, Tidemarks: 1}, true},
	{"rollback and restore of four", model.Bounds{Instants: 4, Writers: 3, Undoings: 1, Undo: true, Archive: true, Tidemarks: 1}, true},
	{"two Tidemarks, rollback and restore", model.Bounds{Instants: 3, Writers: 2, Undoings: 1, Undo: true, Crashes: 1, Takeovers: 1, MDT: 1, Tidemarks: 2}, true},
	{"built at any time", model.Bounds{Instants: 3, Writers: 3, Undoings: 1, Undo: true, Archive: true, Services: 1, Tidemarks: 1, Bootstrap: true}, true},
}

// everything is too large to be explored; random ways go through it.
var everything = model.Bounds{Instants: 6, Writers: 3, Services: 2, Undoings: 2, Undo: true, Equal: true, Split: true, Archive: true, Crashes: 2, Takeovers: 2, MDT: 2,
	Tidemarks: 2}

func long() bool { return os.Getenv("TIDEMARK_TEST_LONG") != "" }

// The invariants hold in every state that can be reached.
func TestExplore(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	for _, s := range scopes {
		if s.long && !long() {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r := s.bounds.Explore(20_000_000, 32)
			if r.Fault != "" {
				t.Fatal(r.Fault)
			}
			t.Logf("%+v: %d states, %d steps, depth %d", s.bounds, r.States, r.Steps, r.Depth)
			if !r.Complete {
				t.Error("not all states were reached")
			}
		})
	}
}

// The invariants hold on random ways through a world of six instants, two undoings, crashes, and everything else at once.
func TestWalk(t *testing.T) {
	testkit.Unraced(t)
	t.Parallel()
	walks := 1500
	if long() {
		walks = 200_000
	}
	r := everything.Walk(1, walks, 70)
	if r.Fault != "" {
		t.Fatal(r.Fault)
	}
	t.Logf("%+v: %d ways, %d steps", everything, r.States, r.Steps)
}
