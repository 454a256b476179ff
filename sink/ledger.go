package sink

import (
	"bytes"
	"context"
	"fmt"
	"path"

	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// moveEvidence takes the evidence of all commits but the one with that id out of a state that holds too much of it, or that a fold
// empties, and names the ledger file that holds it instead. It returns the content of that file; nil if nothing was moved.
func (s *Sink) moveEvidence(after *mdt.State, id string, fold bool) ([]byte, error) {
	var move []mdt.Commit
	n := 0
	for i := range after.Commits {
		c := &after.Commits[i]
		if c.ID == id || len(c.Covered) == 0 {
			continue
		}
		n += len(c.Covered)
		move = append(move, *c)
	}
	if fold {
		defer func() { after.Commits = nil }()
	}
	if n == 0 || !fold && n <= s.cfg.Evidence {
		return nil, nil
	}
	l, content, err := mdt.NewLedger(move, after.Epoch)
	if err != nil {
		return nil, err
	}
	for i := range after.Commits {
		if c := &after.Commits[i]; c.ID != id {
			c.Covered = nil
		}
	}
	after.Ledger = append(after.Ledger, l)
	return content, nil
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
