package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// ledgerInstants is up to how many covered instants small ledger files are put together: some 2 MiB.
const ledgerInstants = 4096

// moveEvidence takes the evidence of all commits but the one with that id out of a state that holds too much of it, and names the ledger
// file that holds it instead, together with what smaller ledger files held. After a fold it takes all of it, and no commit is left in the
// state. It returns the content of the file; nil if nothing was moved.
func (s *Sink) moveEvidence(ctx context.Context, after *mdt.State, id string, fold bool) ([]byte, error) {
	var move, stay []mdt.Commit
	n := 0
	for _, c := range after.Commits {
		switch {
		case c.ID == id:
			stay = append(stay, c)
			continue
		case len(c.Covered) > 0:
			n += len(c.Covered)
			move = append(move, c)
		}
		c.Covered = nil
		stay = append(stay, c)
	}
	if n == 0 || !fold && n <= s.cfg.Evidence {
		if fold {
			after.Commits = nil
		}
		return nil, nil
	}
	move, err := s.absorb(ctx, after, move, n)
	if err != nil {
		return nil, err
	}
	l, content, err := mdt.NewLedger(move, after.Epoch)
	if err != nil {
		return nil, err
	}
	after.Ledger = append(after.Ledger, l)
	if after.Commits = stay; fold {
		after.Commits = nil
	}
	return content, nil
}

// absorb takes the newest ledger files out of the state as long as they hold no more than what is moved, n instants, and returns their
// evidence and that: so there are few files, however many folds. One that cannot be read stays as it is.
func (s *Sink) absorb(ctx context.Context, after *mdt.State, move []mdt.Commit, n int) ([]mdt.Commit, error) {
	for len(after.Ledger) > 0 {
		last := after.Ledger[len(after.Ledger)-1]
		if last.Instants > n || last.Instants+n > ledgerInstants {
			break
		}
		older, err := mdt.ReadLedger(ctx, s.place, last)
		if errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrUnsupported) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("move evidence to the ledger: %w", err)
		}
		older = slices.DeleteFunc(older, func(c mdt.Commit) bool { return len(c.Covered) == 0 })
		move, n = append(older, move...), n+last.Instants
		after.Ledger = after.Ledger[:len(after.Ledger)-1]
	}
	return move, nil
}

// keepEvidence creates the ledger file that moveEvidence made, before any state names it. Its name has a part of its checksum and the
// lease's epoch: what is there already is an attempt of this owner, with the same bytes.
func (s *Sink) keepEvidence(ctx context.Context, after *mdt.State, content []byte) error {
	if content == nil {
		return nil
	}
	file := s.place.LedgerPath(after.Ledger[len(after.Ledger)-1].Path)
	err := s.createOnce(ctx, file, content)
	if err == nil {
		var got []byte
		if got, _, err = s.guard.ReadFile(ctx, file); err == nil && !bytes.Equal(got, content) {
			err = &storage.Error{Op: "read back", Path: file, Hint: "the store does not return what was written; check it",
				Err: fmt.Errorf("bytes differ: %w", storage.ErrCorrupt)}
		}
	}
	if err != nil {
		return fmt.Errorf("move evidence to the ledger: %w", err)
	}
	return nil
}

// sweepLedger deletes ledger files that no state names: of a commit that was taken back, or never staged. Those of a later epoch are
// its owner's. It looks only where there can be any.
func (s *Sink) sweepLedger(ctx context.Context, st *mdt.State, named map[string]bool) error {
	if len(st.Ledger) == 0 && st.Evidence() == 0 {
		return nil
	}
	for _, l := range st.Ledger {
		named[l.Path] = true
	}
	infos, err := s.list(ctx, s.place.LedgerPath(mdt.LedgerDir))
	if err != nil {
		return err
	}
	for _, i := range infos {
		rel := mdt.LedgerDir + "/" + path.Base(i.Path)
		if epoch, own := mdt.LedgerEpoch(rel); i.IsDir || !own || epoch > st.Epoch || named[rel] {
			continue
		}
		if err := s.guard.Delete(ctx, i.Path); err != nil {
			return fmt.Errorf("sweep ledger: %w", err)
		}
	}
	_, err = s.guard.SweepTemps(ctx, s.place.LedgerPath(mdt.LedgerDir))
	return err
}

// fileOf is the path of a retired or burned file.
func (s *Sink) fileOf(rel string) string {
	if _, ledger := mdt.LedgerEpoch(rel); ledger {
		return s.place.LedgerPath(rel)
	}
	return s.place.File(rel)
}
