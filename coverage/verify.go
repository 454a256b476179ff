package coverage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/timeline"
)

// VerifyRequest says what to compare.
type VerifyRequest struct {
	// Index may be empty when the table has one.
	Index string
	// At compares at the snapshot of that instant, by requested or completion time. The index must have stood there: it is
	// read without the commits that came later. Defaults to exactly the commits that the index incorporates.
	At string
	// Sample is the share of record keys that are compared, chosen by a hash of the key. Defaults to 1, all.
	Sample float64
	// Examples bounds the sample keys given per class. Defaults to 5.
	Examples int
	// Progress is told how many rows have been compared. Defaults to nothing.
	Progress func(rows int64)
}

// VerifyReport is what Verify found. Its JSON form is fixed (design, section 5). Postings and keys are counted, not records.
type VerifyReport struct {
	Index      string  `json:"index"`
	Generation uint32  `json:"generation"`
	Snapshot   string  `json:"snapshot"` // requested time of the newest commit compared, "" if none is on the active timeline
	Sample     float64 `json:"sample"`
	// Checked are the distinct record keys whose row can be indexed. A key with several live rows has one: that written last.
	Checked int64 `json:"checked"`
	// Missing are live keys without a posting.
	Missing int64 `json:"missing"`
	// Extra are postings without a live indexable row.
	Extra int64 `json:"extra"`
	// Stale are postings of other vector bytes, Misrouted those not in the nearest cluster, WrongCode those of the right bytes
	// with another code, WrongLocator those that say another place.
	Stale        int64 `json:"stale"`
	Misrouted    int64 `json:"misrouted"`
	WrongCode    int64 `json:"wrong_code"`
	WrongLocator int64 `json:"wrong_locator"`
	// Hidden are dead postings of degraded file groups, which a search drops.
	Hidden int64 `json:"hidden"`
	// DuplicateKeys are keys with more than one live row, indexable or not.
	DuplicateKeys int64 `json:"duplicate_keys"`
	// Unindexable are live rows whose vector cannot be indexed.
	Unindexable int64 `json:"unindexable"`
	// Reasons says why they cannot: rows by reason, summing up to their count.
	Reasons map[string]int64 `json:"-"`
	// ForeignFiles are files in the index's directory that are not ours: by their name, or as their id was never given out.
	ForeignFiles int64 `json:"foreign_files"`
	// Damaged says what else that the index rests on cannot be read, with the next step: the ledger of what it covered, the archived
	// timeline. The rest is compared all the same.
	Damaged []string `json:"damaged,omitempty"`
	// LeftOut are completed commits that the comparison knows nothing of, as the index does not hold them: those that are skipped or
	// quarantined, and what else completed at or before the newest commit compared. The table as it is at Snapshot has their rows.
	LeftOut []Gap `json:"left_out,omitempty"`
	// OK says that missing, extra, stale, misrouted and wrong_code are all 0, that nothing is damaged and no commit left out.
	OK bool `json:"ok"`
	// Examples are some record keys, or file names, per class.
	Examples map[string][]string `json:"examples"`
}

// equal says that nothing differs in what was compared.
func (r *VerifyReport) equal() bool {
	return r.Missing+r.Extra+r.Stale+r.Misrouted+r.WrongCode == 0
}

// Covered says that all is right as far as the index covers the table, and that commits are left out: it says nothing of the table's newest rows.
func (r *VerifyReport) Covered() bool {
	return r.equal() && len(r.Damaged) == 0 && len(r.LeftOut) > 0
}

// Empty says that a sample was compared which holds none of the keys: that nothing differs means nothing then.
func (r *VerifyReport) Empty() bool {
	return r.Sample < 1 && r.Checked == 0 && (r.OK || r.Covered())
}

// Sentence says the result for people.
func (r *VerifyReport) Sentence() string {
	keys := fmt.Sprintf("%s of index %s", count(int(r.Checked), "key"), r.Index)
	at := "at " + orNone(r.Snapshot)
	if len(r.LeftOut) > 0 {
		at = fmt.Sprintf("as it would be %s without %s", at, r.without())
	}
	switch {
	case r.Empty():
		return fmt.Sprintf("nothing compared: the sample of %v holds none of the keys of index %s", r.Sample, r.Index)
	case r.OK:
		return fmt.Sprintf("ok: %s agree with the table %s", keys, at)
	case r.Covered():
		return fmt.Sprintf("ok as far as covered: %s agree with the table %s", keys, at)
	case r.equal():
		return fmt.Sprintf("damaged: %s agree with the table %s, but %s cannot be read", keys, at, count(len(r.Damaged), "thing")+" that it rests on")
	}
	text := fmt.Sprintf("mismatch: of %s, %d missing, %d extra, %d stale, %d misrouted, %d with a wrong code",
		keys, r.Missing, r.Extra, r.Stale, r.Misrouted, r.WrongCode)
	if len(r.LeftOut) > 0 {
		text += "; compared with the table " + at
	}
	return text
}

// without names the first of the commits that are left out.
func (r *VerifyReport) without() string {
	first := r.LeftOut[0]
	if len(r.LeftOut) == 1 {
		return fmt.Sprintf("commit %s, which is %s", first.Requested, first.State())
	}
	return fmt.Sprintf("%s, the first is %s, which is %s", count(len(r.LeftOut), "commit"), first.Requested, first.State())
}

// leaveOut notes the commits that an index does not hold and that are set aside, or lie at or before the newest that it holds.
func (r *VerifyReport) leaveOut(st *mdt.State, tl *timeline.Timeline, set markers.Set) {
	newest := ""
	for _, w := range tl.Writes() {
		if set.Has(w) {
			newest = max(newest, w.Completed)
		}
	}
	for _, w := range tl.Writes() {
		skip, skipped := st.Skipped[w.Requested]
		_, aside := st.Quarantine[w.Requested]
		if set.Has(w) || !skipped && !aside && w.Completed > newest {
			continue
		}
		g := Gap{Requested: w.Requested, Completed: &w.Completed, Action: w.Action, Reason: GapPending, Skipped: skip.Reason}
		if skipped || aside {
			g.Reason = GapQuarantined
		}
		r.LeftOut = append(r.LeftOut, g)
	}
}

const defaultExamples = 5

// Verify compares the live postings of an index with the merged rows of its table, both as of the same commits, by content. It
// reads every file of the index whole and checks it against the state: a damaged one is storage.ErrCorrupt. A file of the table
// that the snapshot needs and that is gone is storage.ErrNotFound. What the comparison does not need and is damaged is in the report.
func Verify(ctx context.Context, d Deps, r VerifyRequest) (*VerifyReport, error) {
	if r.Sample < 0 || r.Sample > 1 {
		return nil, &storage.Error{Op: "verify", Hint: "give a share between 0 and 1", Err: fmt.Errorf("sample %v: %w", r.Sample, storage.ErrRefused)}
	}
	if r.Sample == 0 {
		r.Sample = 1
	}
	if r.Examples == 0 {
		r.Examples = defaultExamples
	}
	report, err := verifyOnce(ctx, d, r)
	if gone(err) && ctx.Err() == nil {
		// A fold or a drop may have replaced our files, a clean the table's, since they were looked up: look again, once.
		report, err = verifyOnce(ctx, d, r)
	}
	return report, err
}

func verifyOnce(ctx context.Context, d Deps, r VerifyRequest) (*VerifyReport, error) {
	st, _, err := mdt.ReadState(ctx, d.Place)
	if err != nil {
		return nil, err
	}
	x, err := pick(st, r.Index)
	if err != nil {
		return nil, err
	}
	t, err := table.Open(ctx, d.Place.Store)
	if err != nil {
		return nil, err
	}
	report := &VerifyReport{Index: x.Name, Sample: r.Sample, Examples: map[string][]string{}}
	evidence, err := mdt.Evidence(ctx, d.Place, st, x.Name)
	if err != nil && (r.At != "" || !report.damaged(err)) { // only an earlier snapshot needs it
		return nil, fmt.Errorf("verify index %s: %w", x.Name, err)
	}
	if r.Sample == 1 {
		if err := report.beside(ctx, d.Place, t, st, x.Name); err != nil {
			return nil, fmt.Errorf("verify index %s: %w", x.Name, err)
		}
		g := standing{place: d.Place, state: st, props: t.Props, tl: t.Timeline}
		for _, step := range []func(context.Context, *mdt.Index) (*fallen, error){g.astray, g.lostOurs} {
			found, err := step(ctx, x)
			if err != nil && !report.damaged(err) {
				return nil, fmt.Errorf("verify index %s: %w", x.Name, err)
			}
			if found != nil {
				hint := cmp.Or(found.hint(), "drop index "+x.Name+" and create it again")
				report.damaged(&storage.Error{Op: "verify", Path: x.Name, Err: fmt.Errorf("%s: %w", found.reason, storage.ErrCorrupt), Hint: hint})
			}
		}
	}
	set, cut := setOf(x), table.Cut{}
	if r.At != "" {
		if st, set, cut.Upto, err = rewind(st, x, evidence, t.Timeline, r.At); err != nil {
			return nil, err
		}
		x = st.Indexes[x.Name]
	}
	cut.In = set.Has
	if err := checkFiles(ctx, d.Place, st, x, r.Examples, report); err != nil {
		return nil, err
	}
	view, err := mdt.OpenView(ctx, d.Place, st, x.Name)
	if err != nil {
		return nil, err
	}
	gen, err := generation.Load(ctx, view, x)
	if err != nil {
		return nil, err
	}
	report.Generation = gen.Number
	for _, w := range t.Timeline.Writes() {
		if set.Has(w) && (cut.Upto == "" || w.Completed <= cut.Upto) {
			report.Snapshot = w.Requested
		}
	}
	c := newComparison(gen, t.Timeline, r)
	if err := gen.Postings(ctx, view, c.posting); err != nil {
		return nil, fmt.Errorf("verify index %s: %w", x.Name, err)
	}
	if err := c.table(ctx, t, x, cut); err != nil {
		return nil, fmt.Errorf("verify index %s: %w", x.Name, err)
	}
	c.finish(report, degradedGroups(st, x.Name))
	if r.At == "" { // else it stood there exactly, see rewind
		report.leaveOut(st, t.Timeline, set)
	}
	report.OK = report.equal() && len(report.Damaged) == 0 && len(report.LeftOut) == 0
	return report, nil
}

// beside checks what an index rests on beside its own files and the table's: the archived timeline, the state, our commit files.
func (r *VerifyReport) beside(ctx context.Context, place mdt.Place, t *table.Table, st *mdt.State, index string) error {
	if _, err := t.Archive().Verify(ctx); err != nil && !r.damaged(err) {
		return err
	}
	if err := mdt.CheckStateBytes(ctx, place); err != nil && !r.damaged(err) {
		return err
	}
	if err := mdt.CheckCommitFiles(ctx, place, st, index); err != nil && !r.damaged(err) {
		return err
	}
	return nil
}

// damaged notes an error about something damaged; false: it is another error.
func (r *VerifyReport) damaged(err error) bool {
	if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
		return false
	}
	text := err.Error()
	if hint := storage.Hint(err); hint != "" {
		text += "; next: " + hint
	}
	r.Damaged = append(r.Damaged, text)
	return true
}

func degradedGroups(st *mdt.State, index string) map[table.Group]bool {
	out := map[table.Group]bool{}
	for _, g := range st.Degraded {
		if g.Index == index {
			out[table.Group{Partition: g.Partition, FileID: g.FileID}] = true
		}
	}
	return out
}

// rewind returns the state as it was when the index stood at the snapshot of an instant: without the commits that covered later
// ones, by the evidence for it. storage.ErrRefused when it never stood exactly there.
func rewind(st *mdt.State, x *mdt.Index, evidence []mdt.Commit, tl *timeline.Timeline, at string) (*mdt.State, markers.Set, string, error) {
	refuse := func(format string, args ...any) (*mdt.State, markers.Set, string, error) {
		return nil, markers.Set{}, "", &storage.Error{Op: "verify at", Path: at, Hint: "leave --at out, or take an instant after which a sync ended: tidemark markers",
			Err: fmt.Errorf(format+": %w", append(args, storage.ErrRefused)...)}
	}
	inst, ok := tl.Find(at)
	if !ok || !inst.IsDataWrite() {
		return refuse("not a completed commit of the active timeline")
	}
	back := st.Clone()
	later := map[string]bool{}
	end := "" // the first of our commits that is left out
	for _, c := range evidence {
		for _, covered := range c.Covered {
			if end == "" && covered.Index == x.Name && covered.Completed > inst.Completed {
				end = c.ID
			}
		}
		if end == "" {
			continue
		}
		for _, covered := range c.Covered {
			if covered.Index == x.Name {
				later[covered.Requested] = true
			}
		}
	}
	folded := func(f mdt.DataFile) bool { return f.Index == x.Name && f.ID > end }
	if end != "" && slices.ContainsFunc(st.Base, folded) {
		return refuse("commits that came later are folded into the same files by now")
	}
	if end != "" {
		back.Commits = slices.DeleteFunc(back.Commits, func(c mdt.Commit) bool { return c.ID >= end })
	}
	bx := back.Indexes[x.Name]
	maps.DeleteFunc(bx.Covered, func(requested, _ string) bool { return later[requested] })
	set := setOf(bx)
	for _, w := range tl.Writes() {
		if in := set.Has(w); in != (w.Completed <= inst.Completed) {
			return refuse("the index never stood at exactly that snapshot: it differs in commit %s", w.Requested)
		}
	}
	return back, set, inst.Completed, nil
}

// checkFiles reads all files of an index whole, and counts what lies in its directory that is not ours.
func checkFiles(ctx context.Context, place mdt.Place, st *mdt.State, x *mdt.Index, examples int, report *VerifyReport) error {
	ours := map[string]bool{}
	for _, f := range st.Live(x.Name) {
		ours[f.Path] = true
		b, _, err := place.Store.ReadFile(ctx, place.File(f.Path))
		if err == nil && int64(len(b)) != f.Size {
			err = fmt.Errorf("%d bytes, the state says %d: %w", len(b), f.Size, storage.ErrCorrupt)
		}
		if sum := sha256.Sum256(b); err == nil && hex.EncodeToString(sum[:]) != f.SHA256 {
			err = fmt.Errorf("sha-256 is %x, the state says %s: %w", sum, f.SHA256, storage.ErrCorrupt)
		}
		if err != nil {
			return &storage.Error{Op: "verify file", Path: place.File(f.Path), Err: err, Hint: "the file is damaged or gone: drop the index and create it again"}
		}
	}
	for _, f := range st.Retired {
		ours[f.Path] = true
	}
	for _, p := range st.Burned {
		ours[p] = true
	}
	dir, err := listDir(ctx, place.Store, place.File(x.Dir))
	if err != nil {
		return err
	}
	last := st.LastTime
	for _, info := range dir {
		name := path.Base(info.Path)
		if ours[x.Dir+"/"+name] {
			continue
		}
		if id, _, own := mdt.OwnName(name); own && id > last { // of a commit that began meanwhile, if the state says so by now
			now, _, err := mdt.ReadState(ctx, place)
			if err != nil {
				return err
			}
			last = max(last, now.LastTime)
		}
		if id, _, own := mdt.OwnName(name); own && id <= last {
			continue // what is ours by name and not in the state is swept by the next writer
		}
		report.ForeignFiles++
		report.example("foreign_files", name, examples)
	}
	return nil
}

// example adds a sample to a class. Callers go through their keys in order.
func (r *VerifyReport) example(class, key string, most int) {
	if list := r.Examples[class]; len(list) < most && !slices.Contains(list, key) {
		r.Examples[class] = append(list, key)
	}
}
