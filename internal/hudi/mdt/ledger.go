package mdt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tidemark/internal/storage"
)

// LedgerFormat is the version of a ledger file that this code reads and writes. Any other is refused.
const LedgerFormat = 1

// LedgerDir is the directory of the ledger files, relative to Place.StateDir.
const LedgerDir = "ledger"

// Ledger names a ledger file: the evidence of older commits, moved out of the state so that it stays small. The file is written
// once, before the state that names it. Nothing decides by it: what is covered is in the state.
type Ledger struct {
	Path     string `json:"path"` // relative to Place.StateDir
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`   // hex
	First    string `json:"first"`    // lowest completion time of its instants
	Last     string `json:"last"`     // highest
	Instants int    `json:"instants"` // entries of CoveredInstant in it
	Commit   string `json:"commit"`   // id of the newest of our commits whose evidence it holds
	// Indexes are those whose evidence in it counts, sorted. A dropped one is taken out.
	Indexes []string `json:"indexes"`
	// Undone are, by index, requested times of instants that a reconcile found undone: they are covered no longer, whatever it says.
	Undone map[string][]string `json:"undone,omitempty"`
}

type ledgerFile struct {
	Format  int      `json:"format"`
	Commits []Commit `json:"commits"` // in id order, without files
}

// LedgerName is the path of a ledger file, relative to Place.StateDir. commit is the newest commit in it, epoch the lease's.
func LedgerName(commit string, epoch int64, content []byte) string {
	sum := sha256.Sum256(content)
	return fmt.Sprintf("%s/%s-%d-%s.json", LedgerDir, commit, epoch, hex.EncodeToString(sum[:6]))
}

// LedgerEpoch returns the epoch in a path that LedgerName made; ok is false for any other.
func LedgerEpoch(rel string) (epoch int64, ok bool) {
	name, is := strings.CutPrefix(rel, LedgerDir+"/")
	stem, json := strings.CutSuffix(name, ".json")
	parts := strings.Split(stem, "-")
	if !is || !json || len(parts) != 3 || !digits(parts[0]) || !digits(parts[1]) || len(parts[1]) > 18 {
		return 0, false
	}
	_, err := fmt.Sscan(parts[1], &epoch)
	return epoch, err == nil
}

// LedgerPath is the path of a ledger file that the state names relative to the state's directory.
func (p Place) LedgerPath(rel string) string { return p.StateDir + "/" + rel }

// NewLedger makes the ledger file of commits, which are in id order and have evidence, and what the state says of it.
func NewLedger(commits []Commit, epoch int64) (Ledger, []byte, error) {
	f := ledgerFile{Format: LedgerFormat}
	var l Ledger
	for _, c := range commits {
		c.Files = nil
		f.Commits = append(f.Commits, c)
		l.Commit = c.ID
		for _, i := range c.Covered {
			if l.Instants++; l.First == "" || i.Completed < l.First {
				l.First = i.Completed
			}
			l.Last = max(l.Last, i.Completed)
			if !slices.Contains(l.Indexes, i.Index) {
				l.Indexes = append(l.Indexes, i.Index)
			}
		}
	}
	slices.Sort(l.Indexes)
	b, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return Ledger{}, nil, fmt.Errorf("encode ledger: %w", err)
	}
	b = append(b, '\n')
	sum := sha256.Sum256(b)
	l.Path, l.Size, l.SHA256 = LedgerName(l.Commit, epoch, b), int64(len(b)), hex.EncodeToString(sum[:])
	return l, b, nil
}

// ReadLedger returns the commits of a ledger file with the evidence that still counts: not that of indexes dropped since, nor of
// instants undone since. A file that is missing, or is not the one that the state names, is ErrCorrupt.
func ReadLedger(ctx context.Context, p Place, l Ledger) ([]Commit, error) {
	refuse := func(err error) error {
		return &storage.Error{Op: "read ledger", Path: p.LedgerPath(l.Path), Err: err,
			Hint: "evidence of older commits is lost; what the index covers does not depend on it. Restore the file, or drop the index and create it again"}
	}
	b, _, err := p.Store.ReadFile(ctx, p.LedgerPath(l.Path))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, refuse(fmt.Errorf("missing: %w", storage.ErrCorrupt))
	}
	if err != nil {
		return nil, &storage.Error{Op: "read ledger", Path: p.LedgerPath(l.Path), Err: err}
	}
	if int64(len(b)) != l.Size {
		return nil, refuse(fmt.Errorf("%d bytes, the state says %d: %w", len(b), l.Size, storage.ErrCorrupt))
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != l.SHA256 {
		return nil, refuse(fmt.Errorf("sha-256 is %x, the state says %s: %w", sum, l.SHA256, storage.ErrCorrupt))
	}
	f := ledgerFile{}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	err = dec.Decode(&f)
	if f.Format > LedgerFormat {
		return nil, &storage.Error{Op: "read ledger", Path: p.LedgerPath(l.Path), Hint: newerHint,
			Err: fmt.Errorf("format %d, this build knows %d: %w", f.Format, LedgerFormat, storage.ErrUnsupported)}
	}
	if err != nil {
		return nil, refuse(fmt.Errorf("%w: %w", err, storage.ErrCorrupt))
	}
	if f.Format != LedgerFormat {
		return nil, refuse(fmt.Errorf("format %d, this build knows %d: %w", f.Format, LedgerFormat, storage.ErrUnsupported))
	}
	for i := range f.Commits {
		f.Commits[i].Covered = slices.DeleteFunc(f.Commits[i].Covered, func(c CoveredInstant) bool {
			return !slices.Contains(l.Indexes, c.Index) || slices.Contains(l.Undone[c.Index], c.Requested)
		})
	}
	return f.Commits, nil
}

// Evidence returns the commits with evidence of an index, in id order, from the ledger and the state. Kinds as ReadLedger.
func Evidence(ctx context.Context, p Place, st *State, index string) ([]Commit, error) {
	var out []Commit
	for _, l := range st.Ledger {
		if !slices.Contains(l.Indexes, index) {
			continue
		}
		commits, err := ReadLedger(ctx, p, l)
		if err != nil {
			return nil, err
		}
		out = append(out, commits...)
	}
	for _, c := range st.Commits {
		if len(c.Covered) > 0 {
			out = append(out, c)
		}
	}
	return out, nil
}

// Evidence counts the covered instants whose evidence is in the state itself.
func (s *State) Evidence() int {
	n := 0
	for _, c := range s.Commits {
		n += len(c.Covered)
	}
	return n
}

// ForgetEvidence takes the evidence of an index out of the state and its ledger: of the instants with these requested times, or all
// of it if requested is nil.
func (s *State) ForgetEvidence(index string, requested []string) {
	for i := range s.Commits {
		c := &s.Commits[i]
		c.Covered = slices.DeleteFunc(c.Covered, func(i CoveredInstant) bool {
			return i.Index == index && (requested == nil || slices.Contains(requested, i.Requested))
		})
	}
	for i := range s.Ledger {
		l := &s.Ledger[i]
		if !slices.Contains(l.Indexes, index) {
			continue
		}
		if requested == nil {
			l.Indexes = slices.DeleteFunc(slices.Clone(l.Indexes), func(name string) bool { return name == index })
			delete(l.Undone, index)
			continue
		}
		for _, at := range requested {
			// An instant completes after it was requested: one requested after all of these completed is not in it.
			if at <= l.Last && !slices.Contains(l.Undone[index], at) {
				if l.Undone == nil {
					l.Undone = map[string][]string{}
				}
				l.Undone[index] = append(l.Undone[index], at)
			}
		}
	}
	s.Ledger = slices.DeleteFunc(s.Ledger, func(l Ledger) bool { return len(l.Indexes) == 0 })
}
