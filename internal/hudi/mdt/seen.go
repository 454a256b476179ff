package mdt

import (
	"context"
	"fmt"
	"slices"

	"tidemark/timeline"
)

// Seen is how the active timeline showed a data write when an index took it in. A file that differs from it is another one.
type Seen struct {
	Completed string          `json:"completed"`
	Action    timeline.Action `json:"action"`
	Size      int64           `json:"size"`
	// Digest is the hex SHA-256 of its metadata. It stays here when a fold moves the evidence of covered instants to the ledger, so
	// that who compares need not read that.
	Digest string `json:"digest,omitempty"`
}

// SeenArchive is the furthest that the archived timeline was seen to reach when a commit of ours became visible. An archive only
// grows, so that one which reaches less far has lost something. The zero value means that nothing was archived, or that nobody looked.
type SeenArchive struct {
	Version int    `json:"version"` // of its manifest
	Upto    string `json:"upto"`    // largest requested time in it
	// Earliest is that of the active timeline then (timeline.Timeline.Earliest): while it is the same, nothing was archived since.
	Earliest string `json:"earliest"`
}

// holds says whether the index incorporates an instant, by its sets.
func (x *Index) holds(requested, completed string) bool {
	return x.Baseline.Instants[requested] == completed || x.Covered[requested] == completed
}

// Witness notes how the timeline shows the writes that an index incorporates and that were not noted before, with the digests that
// the evidence in the state has, and forgets those that it no longer incorporates. Archived writes are left out.
func (s *State) Witness(index string, writes []timeline.Instant) {
	x, digests := s.Indexes[index], map[string]string{}
	for _, c := range s.Commits {
		for _, i := range c.Covered {
			if i.Index == index {
				digests[i.Requested+i.Completed] = i.Digest
			}
		}
	}
	x.Witness(writes, digests)
}

// Witness is State.Witness with digests from elsewhere, by requested and completion time in one text; nil for none.
func (x *Index) Witness(writes []timeline.Instant, digests map[string]string) {
	seen := make(map[string]Seen, len(x.Seen))
	for requested, s := range x.Seen {
		if x.holds(requested, s.Completed) {
			seen[requested] = s
		}
	}
	for _, w := range writes {
		if _, noted := seen[w.Requested]; !noted && !w.Archived && x.holds(w.Requested, w.Completed) {
			seen[w.Requested] = Seen{Completed: w.Completed, Action: w.Action, Size: w.Size}
		}
	}
	for requested, s := range seen {
		if s.Digest == "" {
			s.Digest = digests[requested+s.Completed]
			seen[requested] = s
		}
	}
	x.Seen = seen
}

// Unseen says that the state names a write of the active timeline as incorporated that nobody noted, though it notes what is taken
// in: someone else wrote it there.
func (x *Index) Unseen(w timeline.Instant) bool {
	if len(x.Seen) == 0 || w.Archived || !w.IsDataWrite() || !x.holds(w.Requested, w.Completed) {
		return false
	}
	return x.Seen[w.Requested].Completed != w.Completed
}

// Untaken is Unseen, and says the same of a covered write that no commit of ours has evidence of: none in the state, and none in the
// ledger by the completion times that its files span, which are not read.
func (s *State) Untaken(x *Index) func(w timeline.Instant) bool {
	evident := map[string]bool{}
	for _, c := range s.Commits {
		for _, i := range c.Covered {
			if i.Index == x.Name {
				evident[i.Requested+i.Completed] = true
			}
		}
	}
	return func(w timeline.Instant) bool {
		if x.Unseen(w) {
			return true
		}
		if len(x.Seen) == 0 || w.Archived || x.Baseline.Instants[w.Requested] == w.Completed || x.Covered[w.Requested] != w.Completed {
			return false
		}
		return !evident[w.Requested+w.Completed] && !slices.ContainsFunc(s.Ledger, func(l Ledger) bool {
			return l.First <= w.Completed && w.Completed <= l.Last && slices.Contains(l.Indexes, x.Name)
		})
	}
}

// Changed says how a write of the active timeline that the index incorporates differs from what it was when it was taken in; "" if it
// does not, as far as a listing shows. A completed write is never empty, whether it was noted or not.
func (x *Index) Changed(w timeline.Instant) string {
	if !w.IsDataWrite() || w.Archived || !x.holds(w.Requested, w.Completed) {
		return ""
	}
	was, noted := x.Seen[w.Requested]
	noted = noted && was.Completed == w.Completed
	switch {
	case w.Size == 0:
		return "is empty"
	case noted && was.Action != w.Action:
		return fmt.Sprintf("is a %s and was a %s", w.Action, was.Action)
	case noted && was.Size != w.Size:
		return fmt.Sprintf("has %d bytes and had %d", w.Size, was.Size)
	}
	return ""
}

// ReachOf is how far an archive reaches now; zero if that cannot be read, which is not for who writes to decide.
func ReachOf(ctx context.Context, a *timeline.Archive, tl *timeline.Timeline) SeenArchive {
	r, err := a.Reach(ctx)
	if err != nil || r.Version < 0 {
		return SeenArchive{Earliest: tl.Earliest()}
	}
	return SeenArchive{Version: r.Version, Upto: r.Upto, Earliest: tl.Earliest()}
}

// Least is what an archive must reach at least.
func (s SeenArchive) Least() timeline.Reach { return timeline.Reach{Version: s.Version, Upto: s.Upto} }

// Further returns the further of two looks: what was there once is not forgotten.
func (s SeenArchive) Further(now SeenArchive) SeenArchive {
	return SeenArchive{Version: max(s.Version, now.Version), Upto: max(s.Upto, now.Upto), Earliest: now.Earliest}
}
