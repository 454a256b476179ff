package mdt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"time"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
)

// StateFormat is the version of state.json that this code reads and writes. Any other is refused.
const StateFormat = 1

// State is the content of state.json: one object per table, all its indexes together (docs/format/state.md). It is the only
// truth about which of our files are visible to our readers. Only sink writes it. docs/format/state.md describes it.
type State struct {
	Format int `json:"format"`
	// Sum is the hex SHA-256 of the encoded state with an empty Sum. EncodeState sets it, DecodeState checks it: a
	// flipped digit in a baseline or covered set would make an index look fresh that is not.
	Sum string `json:"sum,omitempty"`
	// Revision grows with every change of what follows the lease and operator fields; what was computed from one
	// revision is stale at another.
	Revision int64 `json:"revision"`

	// Table is the table that the indexes are of, where the state lies beside it; nil inside a table.
	Table *TableID `json:"table,omitempty"`

	// Lease. Epoch grows at each takeover.
	Epoch      int64     `json:"epoch"`
	Owner      string    `json:"owner,omitempty"` // "" = free
	Host       string    `json:"host,omitempty"`  // host and boot of the owner
	PID        int       `json:"pid,omitempty"`
	ValidUntil time.Time `json:"validUntil,omitzero"`

	LastTime   string `json:"lastTime,omitempty"`   // newest id or completion time ever allocated, aborted ones included
	NewestSeen string `json:"newestSeen,omitempty"` // newest data-table time ever seen
	Allocated  int    `json:"allocated,omitempty"`  // ids allocated since NewestSeen last grew

	Indexes  map[string]*Index `json:"indexes"`
	Base     []DataFile        `json:"base,omitempty"`     // base files of the last bootstrap or fold
	Commits  []Commit          `json:"commits,omitempty"`  // own deltacommits since then, in id order
	Ledger   []Ledger          `json:"ledger,omitempty"`   // files with evidence of older commits, in id order
	Restores map[string]string `json:"restores,omitempty"` // requested → completed of restores and rollbacks dealt with
	Degraded []DegradedGroup   `json:"degraded,omitempty"` // file groups whose dead rows are unknown
	// Refold says that every file group is to be folded, with or without logs: a restore took deltacommits of ours off the metadata
	// table's timeline, so that its other readers do not accept the files of that time (docs/format/commit.md, Fold).
	Refold  bool        `json:"refold,omitempty"`
	Archive SeenArchive `json:"archive,omitzero"`

	Retired []Retired `json:"retired,omitempty"` // files no longer in use
	Burned  []string  `json:"burned,omitempty"`  // files of aborted ids that are not deleted yet, relative to the MDT root
	Intent  *Intent   `json:"intent,omitempty"`

	// Operator's decisions; changed without the lease.
	Paused     bool                  `json:"paused,omitempty"`
	Quarantine map[string]Quarantine `json:"quarantine,omitempty"` // by requested time
	Skipped    map[string]Skip       `json:"skipped,omitempty"`    // by requested time
}

// Index describes one index of the table. Its name is its key in State.Indexes.
type Index struct {
	Name        string            `json:"name"`
	Column      string            `json:"column"`
	Element     avrox.Element     `json:"element"`
	Dim         int               `json:"dim"`
	Options     map[string]string `json:"options"` // canonical
	Dir         string            `json:"dir"`     // relative to the MDT root
	FileGroups  int               `json:"fileGroups"`
	Generations []GenState        `json:"generations"` // ascending by number; numbers are never used again
	Baseline    Baseline          `json:"baseline"`
	// Covered are the data instants that have a marker of this index (requested → completed), while they are on the
	// active data timeline. It is kept per index: an index built later covers other instants than its neighbours.
	Covered  map[string]string `json:"covered,omitempty"`
	Frontier Frontier          `json:"frontier,omitzero"`
	// Seen is how the timeline showed what Baseline and Covered name, by requested time, since the program notes it.
	Seen map[string]Seen `json:"seen,omitempty"`
	// Copies are the record keys that live more than once; nil: none is known.
	Copies *Copies `json:"copies,omitempty"`
	// Reconcile says why the index is to be compared with the whole table: a catch-up went over slices that are gone. "" if not.
	Reconcile string     `json:"reconcile,omitempty"`
	Building  []DataFile `json:"building,omitempty"` // files of a generation being built
	Dropped   bool       `json:"dropped,omitempty"`
}

// States of a generation.
const (
	GenBuilding = "BUILDING"
	GenActive   = "ACTIVE"
	GenRetired  = "RETIRED"
	GenDropped  = "DROPPED"
)

// GenState is one generation of an index.
type GenState struct {
	Number    uint32 `json:"number"`
	State     string `json:"state"`               // GenBuilding, GenActive, GenRetired or GenDropped
	Built     string `json:"built,omitempty"`     // id of the deltacommit that holds its base files
	Activated string `json:"activated,omitempty"` // id of the deltacommit that flipped it to ACTIVE
}

// Baseline is what a bootstrap read.
type Baseline struct {
	Instants map[string]string `json:"instants"` // requested → completed of the data writes it holds that were active then
	Before   string            `json:"before"`   // all data writes completed before this time are held; "" = unknown
}

// Frontier is the newest instant up to which everything is covered (decision 8). The zero value means none.
type Frontier struct {
	Requested string `json:"requested"`
	Completed string `json:"completed"`
	// Open is the requested time of the earliest table service that was planned before the frontier and was not covered when it was
	// computed; "" = none.
	Open string `json:"open,omitempty"`
}

// DataFile is one immutable file of ours.
type DataFile struct {
	Path   string `json:"path"`  // relative to the MDT root
	Index  string `json:"index"` // name of its index
	Group  int    `json:"group"` // physical file group
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hex
	ID     string `json:"id"`     // id of the deltacommit it belongs to
	Base   bool   `json:"base,omitempty"`
}

// Commit is one deltacommit of ours that our readers see.
type Commit struct {
	ID         string `json:"id"`
	Completion string `json:"completion"`
	Kind       string `json:"kind,omitempty"`
	// When the look at the table began, when its rows had been compared, when all files were staged (step 6), and when the commit was
	// visible (step 8): by the writer's clock. Zero where it was not taken.
	LookedAt  time.Time        `json:"lookedAt,omitzero"`
	DiffedAt  time.Time        `json:"diffedAt,omitzero"`
	StagedAt  time.Time        `json:"stagedAt,omitzero"`
	VisibleAt time.Time        `json:"visibleAt,omitzero"`
	Files     []DataFile       `json:"files,omitempty"`   // files that the view is made of; base files move to State.Base
	Covered   []CoveredInstant `json:"covered,omitempty"` // evidence; that of older commits is in State.Ledger
}

// CoveredInstant is what one commit says about one data instant for one index.
type CoveredInstant struct {
	Index     string           `json:"index"`
	Requested string           `json:"requested"`
	Completed string           `json:"completed"`
	Action    string           `json:"action"`
	Operation string           `json:"operation,omitempty"`
	Mode      string           `json:"mode"` // full, current_only or merged
	Counts    map[string]int64 `json:"counts"`
	// Reasons says why the unindexable rows among Counts are, rows by reason, summing up to their count; and under names that begin with
	// "slice_" how many file groups of the instant could not be read. Missing where there are none. docs/format/state.md lists them.
	Reasons  map[string]int64 `json:"reasons,omitempty"`
	Digest   string           `json:"digest"`             // hex SHA-256 of the instant's metadata file
	Frontier string           `json:"frontier,omitempty"` // completion time of the frontier after this commit
	// NoticedAt is when a source first heard of the instant; zero if none did before it was covered.
	NoticedAt time.Time `json:"noticedAt,omitzero"`
}

// Retired is a file no longer in use that may be deleted after a time.
type Retired struct {
	Path        string    `json:"path"`                 // relative to the MDT root; that of a ledger file to Place.StateDir
	Index       string    `json:"index"`                // "" for a ledger file
	DeleteAfter time.Time `json:"deleteAfter,omitzero"` // zero = at once
}

// DegradedGroup is a data-table file group whose dead rows are unknown until a reconcile (decision 13).
type DegradedGroup struct {
	Index     string `json:"index"`
	Partition string `json:"partition"`
	FileID    string `json:"fileId"`
	Since     string `json:"since"` // requested time of the instant that was read current-only
}

// Quarantine is a data instant that was set aside after repeated failures.
type Quarantine struct {
	Reason   string    `json:"reason"`
	Since    time.Time `json:"since"`
	Attempts int       `json:"attempts"`
}

// Skip is an operator's decision to go past an instant.
type Skip struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// States of an Intent.
const (
	Staging    = "STAGING"
	Committing = "COMMITTING"
)

// Intent is a commit under way: everything that a successor needs to finish it with the same bytes, or to take it
// back.
type Intent struct {
	State      string     `json:"state"` // Staging or Committing
	Kind       string     `json:"kind"`
	ID         string     `json:"id"`
	Completion string     `json:"completion"`
	Files      []DataFile `json:"files"`
	Commit     []byte     `json:"commit"` // bytes of the commit file (base64 in JSON)
	After      *State     `json:"after"`  // the state once it is visible; lease, operator fields and intent in it mean nothing
}

// NewState returns the state of a table without indexes.
func NewState() *State {
	return &State{Format: StateFormat, Indexes: map[string]*Index{}}
}

// Active returns the generation in state ACTIVE; ok is false when there is none.
func (x *Index) Active() (GenState, bool) {
	for _, g := range x.Generations {
		if g.State == GenActive {
			return g, true
		}
	}
	return GenState{}, false
}

// LastGeneration returns the highest generation number ever used, 0 when there was none.
func (x *Index) LastGeneration() uint32 {
	var last uint32
	for _, g := range x.Generations {
		last = max(last, g.Number)
	}
	return last
}

// Live returns all files that the state has in use (visible ones and those of a generation being built), sorted by
// path. index "" means those of all indexes.
func (s *State) Live(index string) []DataFile {
	var out []DataFile
	add := func(files []DataFile) {
		for _, f := range files {
			if index == "" || f.Index == index {
				out = append(out, f)
			}
		}
	}
	add(s.Base)
	for _, c := range s.Commits {
		add(c.Files)
	}
	for _, x := range s.Indexes {
		add(x.Building)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out
}

// Unfolded returns how many commits have log files that no fold has merged, and the id of the oldest, "" if there is none.
func (s *State) Unfolded() (commits int, oldest string) {
	for _, c := range s.Commits {
		if len(c.Files) == 0 {
			continue
		}
		if commits++; oldest == "" || c.ID < oldest {
			oldest = c.ID
		}
	}
	return commits, oldest
}

// EncodeState returns the bytes of state.json: indented JSON, map keys sorted, so the same state gives the same bytes. The
// state's own Sum is not looked at; the bytes carry the right one.
func EncodeState(s *State) ([]byte, error) {
	c := *s
	c.Sum = ""
	b, err := c.encode()
	if err != nil {
		return nil, err
	}
	h := sha256.Sum256(b)
	return slices.Insert(b, sumAt(b), sumLine(hex.EncodeToString(h[:]))...), nil
}

// sumAt is where the line of Sum belongs: behind the first field, which is Format.
func sumAt(b []byte) int { return bytes.IndexByte(b, ',') + 1 }

func sumLine(sum string) []byte { return []byte("\n \"sum\": \"" + sum + "\",") }

func (s *State) encode() ([]byte, error) {
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	return append(b, '\n'), nil
}

// summed says whether Sum is that of b, the bytes that the state was decoded from. Bytes that another program laid out anew have
// the sum of what they say.
func (s *State) summed(b []byte) (bool, error) {
	at, line := sumAt(b), sumLine(s.Sum)
	if bytes.HasPrefix(b[at:], line) {
		h := sha256.New()
		h.Write(b[:at])
		h.Write(b[at+len(line):])
		if hex.EncodeToString(h.Sum(nil)) == s.Sum {
			return true, nil
		}
	}
	c := *s
	c.Sum = ""
	again, err := c.encode()
	h := sha256.Sum256(again)
	return hex.EncodeToString(h[:]) == s.Sum, err
}

// newerHint keeps people from fighting a newer build over what it wrote.
const newerHint = "a newer tidemark works on this table: use that build, or a newer one; nothing was changed"

// DecodeState reads the bytes of state.json. Another format is ErrUnsupported. Anything else that does not fit is
// ErrCorrupt, an unknown field of this format too: rewriting the state would lose it.
func DecodeState(b []byte) (*State, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	s := &State{}
	err := dec.Decode(s)
	if err != nil {
		var version struct {
			Format int `json:"format"`
		}
		if json.Unmarshal(b, &version) != nil || version.Format == StateFormat {
			return nil, fmt.Errorf("decode state: %w: %w", err, storage.ErrCorrupt)
		}
		s.Format = version.Format
	}
	if s.Format != StateFormat {
		hint := ""
		if s.Format > StateFormat {
			hint = newerHint
		}
		return nil, &storage.Error{Op: "decode", Path: "state", Hint: hint,
			Err: fmt.Errorf("format %d, this build knows %d: %w", s.Format, StateFormat, storage.ErrUnsupported)}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("decode state: bytes after its end: %w", storage.ErrCorrupt)
	}
	if ok, err := s.summed(b); err != nil || !ok {
		return nil, fmt.Errorf("decode state: checksum differs: %w", errors.Join(err, storage.ErrCorrupt))
	}
	s.Sum = "" // of no use in memory: it would differ after the first change
	return s, s.Check()
}

// Check refuses a state that later code could trip over: ErrCorrupt.
func (s *State) Check() error {
	if s.Indexes == nil {
		s.Indexes = map[string]*Index{}
	}
	for name, x := range s.Indexes {
		if x == nil || x.Name != name || x.Dir != PartitionDir(name) {
			return fmt.Errorf("decode state: index %q does not carry its name: %w", name, storage.ErrCorrupt)
		}
		if x.FileGroups < 0 || x.Dim < 0 {
			return fmt.Errorf("decode state: index %q has negative sizes: %w", name, storage.ErrCorrupt)
		}
	}
	paths := map[string]bool{}
	for _, f := range s.Live("") {
		if storage.CheckPath("decode", f.Path) != nil || f.Size < 0 || paths[f.Path] {
			return fmt.Errorf("decode state: file %q: bad path or size, or named twice: %w", f.Path, storage.ErrCorrupt)
		}
		paths[f.Path] = true
	}
	for _, l := range s.Ledger {
		if _, ok := LedgerEpoch(l.Path); !ok || l.Size < 0 || paths[l.Path] || len(l.Indexes) == 0 {
			return fmt.Errorf("decode state: ledger file %q: bad name or size, named twice, or of no index: %w", l.Path, storage.ErrCorrupt)
		}
		paths[l.Path] = true
	}
	if s.Intent == nil {
		return nil
	}
	if s.Intent.State != Staging && s.Intent.State != Committing || s.Intent.After == nil || s.Intent.After.Intent != nil {
		return fmt.Errorf("decode state: intent is not whole: %w", storage.ErrCorrupt)
	}
	return s.Intent.After.Check()
}

// CheckStateBytes says whether the state object is, byte for byte, as it was written: ErrCorrupt if not. Readers also take one that another
// program has laid out anew.
func CheckStateBytes(ctx context.Context, p Place) error {
	b, _, err := p.Store.ReadFile(ctx, p.StatePath())
	if err != nil {
		return fmt.Errorf("check state: %w", err)
	}
	s, err := DecodeState(b)
	if err != nil {
		return &storage.Error{Op: "check", Path: p.StatePath(), Err: err}
	}
	if again, err := EncodeState(s); err != nil || !bytes.Equal(b, again) {
		return &storage.Error{Op: "check", Path: p.StatePath(), Hint: "it says the same; the next sync writes it anew",
			Err: fmt.Errorf("white space or notation is not as it was written: %w", errors.Join(err, storage.ErrCorrupt))}
	}
	return nil
}

// ReadState reads the state object and the tag that Store.Replace takes. ErrNotFound when the table has none,
// ErrUnsupported for another format, ErrCorrupt when it cannot be read, ErrRefused when it lies beside a table and is another one's.
func ReadState(ctx context.Context, p Place) (*State, string, error) {
	return ReadStateUnless(ctx, p, nil, nil)
}

// ReadStateUnless is ReadState that does not decode the bytes known: if they are there it returns a copy of same.
func ReadStateUnless(ctx context.Context, p Place, known []byte, same *State) (*State, string, error) {
	b, info, err := p.Store.ReadFile(ctx, p.StatePath())
	if err != nil {
		e := &storage.Error{Op: "read", Path: p.StatePath(), Err: err}
		if errors.Is(err, storage.ErrNotFound) {
			e.Hint = "create an index first: tidemark index create"
		}
		return nil, "", e
	}
	if same != nil && bytes.Equal(b, known) {
		return same.Clone(), info.Tag, nil
	}
	s, err := DecodeState(b)
	if err != nil {
		hint := storage.Hint(err)
		if hint == "" {
			hint = "the state object is damaged; restore it, or move it away and create the index again"
		}
		return nil, "", &storage.Error{Op: "read", Path: p.StatePath(), Err: err, Hint: hint}
	}
	if p.IsBeside() {
		if err := s.of(p.Table); err != nil {
			return nil, "", &storage.Error{Op: "read", Path: p.StatePath(), Err: err, Hint: otherPlace}
		}
	}
	return s, info.Tag, nil
}
