package coverage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"tidemark/delta"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/markers"
	"tidemark/timeline"
)

// Prove returns a certificate of what an index covers. It is made of what storage says now, and only if all of that agrees:
// every covered commit is on the active or archived timeline with its metadata and has its marker, none was undone, every file
// that holds a marker or the frontier has its checksum, and the frontier of the state is that of the manifest and holds on the
// timeline. What does not agree is storage.ErrCorrupt or storage.ErrStale. index may be empty when the table has one.
func Prove(ctx context.Context, d Deps, index string) (*Certificate, error) {
	made := d.now().UTC().Truncate(time.Millisecond) // what completes from now on need not be seen
	e, err := collect(ctx, d, index)
	if err != nil {
		return nil, err
	}
	v, err := judge(ctx, d.Place.Store, e.props, e.tl, e.state, e.index)
	if err != nil {
		return nil, err
	}
	if len(v.Vanished) > 0 {
		return nil, &storage.Error{Op: "prove", Path: e.index.Name, Err: fmt.Errorf("%s: %w", v.Reason, storage.ErrStale), Hint: "tidemark reconcile makes it equal to the table again"}
	}
	if why := e.index.Reconcile; why != "" {
		return nil, &storage.Error{Op: "prove", Path: e.index.Name, Hint: "tidemark sync ends it",
			Err: fmt.Errorf("a catch-up is still to be compared with the whole table: %s: %w", why, storage.ErrStale)}
	}
	c := &Certificate{Format: CertificateFormat, Table: e.props.Raw["hoodie.table.name"], Index: e.index.Name, Column: e.index.Column,
		Generation: e.generation.Number, Built: e.generation.Built, Time: made, Fresh: v.Fresh,
		Before: e.index.Baseline.Before, Baseline: []Proved{}, Covered: []Proved{}, InFlight: []Gap{}, OK: true}
	if f := e.index.Frontier; f.Completed != "" {
		c.Frontier = &Times{f.Requested, f.Completed}
	}
	if writes := e.tl.Writes(); len(writes) > 0 {
		newest := writes[len(writes)-1]
		c.Latest = &Times{newest.Requested, newest.Completed}
	}
	for requested, completed := range e.index.Baseline.Instants {
		p, err := e.prove(ctx, requested, completed)
		if err != nil {
			return nil, err
		}
		if p.Metadata == "" {
			return nil, noLonger("commit %s of the baseline is on neither timeline", requested)
		}
		c.Baseline = append(c.Baseline, p)
	}
	if err := e.coveredCommits(ctx, c); err != nil {
		return nil, err
	}
	for _, i := range e.tl.Pending() {
		if i.Action.IsWrite() {
			c.InFlight = append(c.InFlight, Gap{Requested: i.Requested, Action: i.Action, Reason: "inflight"})
		}
	}
	if err := e.unchanged(ctx, slices.Concat(c.Baseline, c.Covered)); err != nil {
		return nil, err
	}
	order := func(a, b Proved) int {
		return cmp.Or(cmp.Compare(a.Completed, b.Completed), cmp.Compare(a.Requested, b.Requested))
	}
	slices.SortFunc(c.Baseline, order)
	slices.SortFunc(c.Covered, order)
	for _, p := range slices.Concat(c.Baseline, c.Covered) { // the archiver goes by requested time: the newest write may be archived
		if c.Latest != nil && p.Completed > c.Latest.Completed {
			c.Latest = &Times{p.Requested, p.Completed}
		}
	}
	if c.Digest, err = c.sum(); err != nil {
		return nil, err
	}
	// What nobody would accept is not written: the certificate is checked as its readers check it.
	r := newCheck(c)
	if err := r.compare(ctx, d, c, e); err != nil {
		return nil, err
	}
	if len(r.Problems) > 0 {
		return nil, &storage.Error{Op: "prove", Path: e.index.Name, Hint: "tidemark status says what is wrong; tidemark reconcile compares the index with the whole table",
			Err: fmt.Errorf("the evidence does not agree with itself: %s: %w", r.Problems[0], storage.ErrCorrupt)}
	}
	return c, nil
}

// coveredCommits adds the commits that have a marker, and checks that all those that the state names are among them.
func (e *evidence) coveredCommits(ctx context.Context, c *Certificate) error {
	named := map[string]bool{}
	for completed, m := range e.markers {
		for _, requested := range m.requested {
			if e.index.Covered[requested] != completed {
				if _, active := e.tl.CompletionOf(requested); active || e.index.Baseline.Instants[requested] != "" {
					continue // undone, and made again at another time
				}
			}
			p, err := e.prove(ctx, requested, completed)
			if err != nil {
				return err
			}
			named[requested] = true
			if p.Metadata == "" {
				if e.index.Covered[requested] == completed {
					return noLonger("covered commit %s is on neither timeline", requested)
				}
				continue // undone, and dealt with by a reconcile since
			}
			p.Marker, p.MDTInstant = m.digest, m.id
			c.Covered = append(c.Covered, p)
		}
	}
	for requested := range e.index.Covered {
		if !named[requested] {
			return &storage.Error{Op: "prove", Path: e.index.Name, Hint: "tidemark reconcile compares it with the whole table",
				Err: fmt.Errorf("the state calls commit %s covered, and it has no marker: %w", requested, storage.ErrCorrupt)}
		}
	}
	return nil
}

// unchanged refuses commits whose metadata cannot be read, or is not what it was when the index covered them.
func (e *evidence) unchanged(ctx context.Context, all []Proved) error {
	was := map[Times]string{}
	for _, c := range e.kept {
		for _, i := range c.Covered {
			if i.Index == e.index.Name {
				was[Times{i.Requested, i.Completed}] = i.Digest
			}
		}
	}
	for _, p := range all {
		if digest := was[Times{p.Requested, p.Completed}]; digest != "" && digest != p.Metadata {
			return &storage.Error{Op: "prove", Path: e.index.Name, Hint: "find out who changed it; tidemark reconcile compares the index with the whole table",
				Err: fmt.Errorf("metadata of commit %s is not what was covered: sha-256 %.12s…, now %.12s…: %w", p.Requested, digest, p.Metadata, storage.ErrCorrupt)}
		}
		inst, ok := e.tl.Find(p.Requested)
		if !ok || !inst.IsDataWrite() || inst.Requested != p.Requested {
			continue // an archived one was read to be digested
		}
		if _, err := timeline.ReadCommit(ctx, e.store, table.HoodieDir, e.props, inst); err != nil {
			return err
		}
	}
	return nil
}

// evidence is what storage says about one index.
type evidence struct {
	state      *mdt.State
	index      *mdt.Index
	generation mdt.GenState
	manifest   *delta.Manifest
	props      *timeline.Properties
	tl         *timeline.Timeline
	archive    *timeline.Archive
	store      storage.Store
	markers    map[string]marker // by completion time
	kept       []mdt.Commit      // what the state and its ledger say of the covered commits
	proved     map[Times]Proved  // what was read of commits
}

// marker is one marker record.
type marker struct {
	requested []string
	digest    string // of the record's bytes
	id        string // commit of the metadata table
}

// collect reads the evidence and checks that it agrees with itself.
func collect(ctx context.Context, d Deps, index string) (*evidence, error) {
	e := &evidence{store: d.Place.Store, markers: map[string]marker{}, proved: map[Times]Proved{}}
	raw, _, err := d.Place.Store.ReadFile(ctx, d.Place.StatePath())
	if err != nil {
		return nil, &storage.Error{Op: "read", Path: d.Place.StatePath(), Err: err, Hint: "create an index first: tidemark index create"}
	}
	if e.state, err = mdt.DecodeState(raw); err == nil {
		var same []byte
		if same, err = mdt.EncodeState(e.state); err == nil && !bytes.Equal(same, raw) {
			err = fmt.Errorf("its bytes are not those of what it says: %w", storage.ErrCorrupt)
		}
	}
	if err != nil {
		return nil, &storage.Error{Op: "read", Path: d.Place.StatePath(), Err: err}
	}
	if e.index, err = pick(e.state, index); err != nil {
		return nil, err
	}
	if e.props, e.tl, err = timeline.Open(ctx, d.Place.Store, table.HoodieDir); err != nil {
		return nil, err
	}
	found, err := standing{place: d.Place, state: e.state, props: e.props, tl: e.tl}.judge(ctx, e.index)
	if err != nil {
		return nil, err
	}
	if found != nil {
		return nil, &storage.Error{Op: "prove", Path: e.index.Name, Err: fmt.Errorf("%s: %w", found.reason, storage.ErrStale), Hint: found.hint()}
	}
	e.generation, _ = e.index.Active()
	if e.kept, err = mdt.Evidence(ctx, d.Place, e.state, e.index.Name); err != nil {
		return nil, fmt.Errorf("prove index %s: %w", e.index.Name, err)
	}
	if err := mdt.CheckCommitFiles(ctx, d.Place, e.state, e.index.Name); err != nil {
		return nil, fmt.Errorf("prove index %s: %w", e.index.Name, err)
	}
	e.archive = timeline.NewArchive(d.Place.Store, table.HoodieDir, e.props)
	if err := e.read(ctx, d.Place); err != nil {
		return nil, fmt.Errorf("prove index %s: %w", e.index.Name, err)
	}
	return e, nil
}

// read reads the markers and the manifest of the index from its files, whose checksums are compared with the state.
func (e *evidence) read(ctx context.Context, place mdt.Place) error {
	view, err := mdt.OpenView(ctx, place, e.state, e.index.Name)
	if err != nil {
		return err
	}
	view.Locate = delta.FileGroup
	number := e.generation.Number
	groups := map[int]bool{}
	err = view.ScanEntries(ctx, delta.MarkerPrefix(number), func(r mdt.Entry) error {
		k, err := delta.ParseKey(r.Key)
		if err != nil {
			return err
		}
		rec, err := delta.Decode(r.Schema, bytes.Clone(r.Value))
		m, isMarker := rec.(*delta.SourceInstantMarker)
		if err == nil && !isMarker {
			err = fmt.Errorf("record %T under a marker's key: %w", rec, storage.ErrCorrupt)
		}
		if err != nil {
			return fmt.Errorf("marker %s: %w", k.Instant, err)
		}
		groups[delta.FileGroup(r.Key, e.index.FileGroups)] = true
		sum := sha256.Sum256(r.Value)
		e.markers[k.Instant] = marker{requested: strings.Split(m.DataInstant, ","), digest: hex.EncodeToString(sum[:]), id: e.writerOf(k.Instant, r)}
		return nil
	})
	if err != nil {
		return err
	}
	if e.manifest, err = manifestOf(ctx, view, number); err != nil {
		return err
	}
	if why := Beyond(e.index, e.manifest); why != "" {
		return &storage.Error{Op: "prove", Path: e.index.Name, Hint: forgedHint + "tidemark reconcile", Err: fmt.Errorf("%s: %w", why, storage.ErrCorrupt)}
	}
	groups[delta.FileGroup(delta.ManifestKey(number), e.index.FileGroups)] = true
	if err := e.checksums(ctx, place, view, groups); err != nil {
		return err
	}
	frontier := ""
	if f := e.manifest.VerifiedFrontier; f != nil {
		frontier = *f
	}
	if frontier != e.index.Frontier.Completed {
		return fmt.Errorf("the manifest's frontier is %s, the state's %s: %w", orNone(frontier), orNone(e.index.Frontier.Completed), storage.ErrCorrupt)
	}
	return nil
}

// writerOf returns the commit of the metadata table that wrote the marker of a completion time. A base file that a fold made does not tell:
// then the evidence does.
func (e *evidence) writerOf(completed string, r mdt.Entry) string {
	id := ""
	for _, c := range e.kept {
		if !r.Base || c.ID > r.ID {
			break
		}
		if slices.ContainsFunc(c.Covered, func(i mdt.CoveredInstant) bool { return i.Index == e.index.Name && i.Completed == completed }) {
			id = c.ID
		}
	}
	return cmp.Or(id, r.ID)
}

// checksums compares the files of some file groups, whole, with the state: block checksums alone do not cover every byte.
func (e *evidence) checksums(ctx context.Context, place mdt.Place, view *mdt.View, groups map[int]bool) error {
	for _, f := range view.Files() {
		if !groups[f.Group] {
			continue
		}
		b, _, err := place.Store.ReadFile(ctx, place.File(f.Path))
		if err == nil {
			if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != f.SHA256 {
				err = fmt.Errorf("sha-256 is %x, the state says %s: %w", sum, f.SHA256, storage.ErrCorrupt)
			}
		}
		if err != nil {
			return &storage.Error{Op: "prove file", Path: place.File(f.Path), Err: err}
		}
	}
	return nil
}

// prove finds a commit on the active or archived timeline and reads its metadata. Its Metadata is "" if it is on neither.
func (e *evidence) prove(ctx context.Context, requested, completed string) (Proved, error) {
	at := Times{requested, completed}
	if p, ok := e.proved[at]; ok {
		return p, nil
	}
	p, err := e.metadata(ctx, requested, completed)
	if err == nil {
		e.proved[at] = p
	}
	return p, err
}

func (e *evidence) metadata(ctx context.Context, requested, completed string) (Proved, error) {
	p := Proved{Requested: requested, Completed: completed}
	inst, ok := e.tl.Find(requested)
	if ok && inst.Requested == requested && inst.Completed == completed && inst.IsDataWrite() {
		b, _, err := e.store.ReadFile(ctx, path.Join(e.props.TimelineDir(table.HoodieDir), inst.File))
		sum := sha256.Sum256(b)
		p.Action, p.Metadata = inst.Action, hex.EncodeToString(sum[:])
		return p, err
	}
	inst, ok, err := e.archive.Find(ctx, requested)
	if err != nil || !ok || inst.Requested != requested || inst.Completed != completed || !inst.IsDataWrite() {
		return p, err
	}
	m, err := e.archive.Commit(ctx, inst)
	if err != nil {
		return p, err
	}
	p.Action, p.Metadata = inst.Action, hex.EncodeToString(m.Digest[:])
	return p, nil
}

// holds says whether an index incorporates a commit, by its state: it names it, or it is archived and lies at or below the
// frontier or in the baseline.
func (e *evidence) holds(requested, completed string) bool {
	set := setOf(e.index)
	if set.Baseline[requested] == completed || set.Covered[requested] == completed {
		return true
	}
	if at, active := e.tl.CompletionOf(requested); active && at == completed {
		return false
	}
	return completed <= e.index.Frontier.Completed || requested < set.Before
}

func noLonger(format string, args ...any) error {
	return &storage.Error{Op: "prove", Err: fmt.Errorf(format+": %w", append(args, storage.ErrStale)...), Hint: "tidemark reconcile makes the index equal to the table again"}
}

// claimed are the data writes of either timeline that a frontier, or a snapshot, speaks about: completed at or before a time.
// What was archived before the baseline was read is part of it and left out.
func (e *evidence) claimed(ctx context.Context, before, upto string) ([]timeline.Instant, error) {
	var out []timeline.Instant
	for _, w := range e.tl.Writes() {
		if w.Completed <= upto {
			out = append(out, w)
		}
	}
	archived, err := e.archive.Writes(ctx, e.tl, "")
	for _, w := range archived {
		if w.Completed <= upto && w.Requested >= before {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, markers.ByCompletion)
	return out, err
}
