package simulation

import (
	"path"
	"slices"
	"strings"

	"tidemark/internal/hudi/mdt"
)

// replaced judges a change of the state object that has just happened. Whoever reads the table sees what the state names, so this is
// where an owner that is no longer one would show something.
func (s *sim) replaced(p *process, old, now *mdt.State) {
	name := p.owner()
	switch {
	case now.Epoch == old.Epoch:
		if old.Owner != name {
			s.fail("%s changed the state, which %q owns (epoch %d)", name, old.Owner, old.Epoch)
		}
	case now.Epoch == old.Epoch+1:
		if now.Owner != name {
			s.fail("%s took the lease for %q", name, now.Owner)
		}
		if old.Owner == "" {
			break
		}
		alive := s.alive(old.PID)
		if alive && !p.now().After(old.ValidUntil) {
			s.fail("%s took the lease from %s, which has it until %s", name, old.Owner, old.ValidUntil)
		}
		if alive {
			s.stats.Takeovers++
		}
	default:
		s.fail("%s took the state from epoch %d to %d", name, old.Epoch, now.Epoch)
	}
	if now.Revision < old.Revision || now.LastTime < old.LastTime {
		s.fail("%s took the state from revision %d back to %d, or from time %s to %s", name, old.Revision, now.Revision, old.LastTime, now.LastTime)
	}
	s.intents(name, old.Intent, now)
	s.visible(name, old, now)
}

// intents sees that an intent goes its way: staging, then committing or taken back.
func (s *sim) intents(name string, was *mdt.Intent, now *mdt.State) {
	is := now.Intent
	if is != nil {
		if old, used := s.ids[is.ID]; used && old != string(is.Commit) {
			s.fail("id %s stands for two commits", is.ID)
		}
		s.ids[is.ID] = string(is.Commit)
		if s.aborted[is.ID] {
			s.fail("%s goes on with %s, which was taken back", name, is.ID)
		}
		s.decided[is.ID] = s.decided[is.ID] || is.State == mdt.Committing
	}
	switch {
	case was == nil && is == nil:
	case was == nil:
		if is.State != mdt.Staging {
			s.fail("%s is %s before it was staged", is.ID, is.State)
		}
	case is == nil:
		if !slices.ContainsFunc(now.Commits, func(c mdt.Commit) bool { return c.ID == was.ID }) &&
			!slices.ContainsFunc(now.Live(""), func(f mdt.DataFile) bool { return f.ID == was.ID }) {
			s.aborted[was.ID] = true
		} else if was.Kind == kindFold {
			s.count(kindFold)
		}
	case is.ID != was.ID || was.State == mdt.Committing && is.State != mdt.Committing:
		s.fail("%s put %s %s in the place of %s %s", name, is.ID, is.State, was.ID, was.State)
	}
}

// visible sees that what readers see changes by a decided commit only, and that what they saw is kept for them.
func (s *sim) visible(name string, old, now *mdt.State) {
	before, after := paths(old.Live("")), paths(now.Live(""))
	for _, f := range now.Live("") {
		switch in := old.Intent; {
		case s.aborted[f.ID]:
			s.fail("the state names %s of %s, which was taken back", f.Path, f.ID)
		case before[f.Path]:
		case in == nil || in.State != mdt.Committing || !paths(in.Files)[f.Path]:
			s.fail("%s made %s visible without a decided commit", name, f.Path)
		}
	}
	retired := map[string]bool{}
	for _, r := range now.Retired {
		retired[r.Path] = true
	}
	for f := range before {
		if !after[f] && !retired[f] {
			s.fail("%s took %s away and does not keep it for readers", name, f)
		}
	}
}

func paths(files []mdt.DataFile) map[string]bool {
	out := make(map[string]bool, len(files))
	for _, f := range files {
		out[f.Path] = true
	}
	return out
}

// created sees that a commit file comes after its decision and its files, and is the only one of its id.
func (s *sim) created(file string) {
	place := mdt.Inside(s.store)
	if path.Dir(file) != place.TimelineDir() {
		return
	}
	id, _, _ := strings.Cut(path.Base(file), "_")
	infos, err := s.store.List(s.t.Context(), place.TimelineDir())
	if err != nil {
		s.fail("list the metadata table's timeline: %v", err)
	}
	for _, i := range infos {
		if strings.HasPrefix(path.Base(i.Path), id) && i.Path != file {
			s.fail("%s beside %s", file, i.Path)
		}
	}
	if !s.decided[id] {
		s.fail("commit file %s is created while its commit is not decided", file)
	}
	st, _, err := mdt.ReadState(s.t.Context(), place)
	if err != nil || st.Intent == nil || st.Intent.ID != id {
		return // an old owner's, of a commit that its successor ended
	}
	for _, f := range st.Intent.Files {
		if info, err := s.store.Stat(s.t.Context(), place.File(f.Path)); err != nil || info.Size != f.Size {
			s.fail("commit file %s is created before its file %s", file, f.Path)
		}
	}
}

// deleted sees that nobody deletes what readers may be reading.
func (s *sim) deleted(p *process, file string) {
	place := mdt.Inside(s.store)
	st, _, err := mdt.ReadState(s.t.Context(), place)
	if err != nil {
		return
	}
	for _, f := range st.Live("") {
		if place.File(f.Path) == file {
			s.fail("%s deletes %s, which the state names", p.owner(), file)
		}
	}
	for _, r := range st.Retired {
		if place.File(r.Path) == file && !p.now().After(r.DeleteAfter) {
			s.fail("%s deletes %s, which is kept until %s", p.owner(), file, r.DeleteAfter)
		}
	}
}
