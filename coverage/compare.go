package coverage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	"tidemark/delta"
	"tidemark/generation"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/hudi/table"
	"tidemark/internal/storage"
	"tidemark/internal/vector/kernel"
	"tidemark/internal/vector/rabitq"
	"tidemark/timeline"
)

// comparison holds all postings of an index in a compact form and meets them with the table's rows.
type comparison struct {
	gen      *generation.Generation
	tl       *timeline.Timeline
	request  VerifyRequest
	keys     map[string]*keyState
	interned map[string]string
	vector   []float32

	// keep has the row that counts kept where the postings of its key are not what they should be: corrections are made of it.
	keep bool

	rows, unindexable int64
	unindexableKeys   []string
	reasons           map[string]int64 // unindexable rows by why they are
	slices            []table.Slice    // read so far
	completion        func(requested string) string
}

// keyState is what is known of one record key. Of several live rows the one written last counts, indexable or not (design, decision 17).
type keyState struct {
	postings []stored
	copies   int   // live rows
	dead     bool  // the row that counts cannot be indexed
	slice    int32 // of the row that counts, in comparison.slices
	position int64
	order    string  // when the row that counts was written: completion and requested time
	in       []int32 // the slices of all copies, if there are several
	// row is the row that counts, with its vector, if comparison.keep is set and its postings are not right; nil otherwise. Whoever
	// lets another row count, or none, sets it anew.
	row *delta.Version
}

// stored is one posting: a digest stands for its code.
type stored struct {
	cluster    int
	code       [16]byte
	residual   float32
	vectorNorm float32
	hasNorm    bool
	locator    delta.Locator
	verdict    verdict
}

// verdict is a set of faults.
type verdict uint8

const (
	stale verdict = 1 << iota
	misrouted
	wrongCode
	wrongLocator
)

func newComparison(gen *generation.Generation, tl *timeline.Timeline, r VerifyRequest) *comparison {
	return &comparison{reasons: map[string]int64{}, gen: gen, tl: tl, request: r, keys: map[string]*keyState{}, interned: map[string]string{}, vector: make([]float32, gen.Dim)}
}

// sampled says whether a key is among those compared, by the key alone.
func (c *comparison) sampled(key string) bool {
	if c.request.Sample >= 1 {
		return true
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	v := h.Sum64()
	v ^= v >> 33 // FNV leaves the high bits of short keys alike
	v *= 0xff51afd7ed558ccd
	v ^= v >> 33
	return float64(v) < c.request.Sample*math.MaxUint64
}

func (c *comparison) intern(s string) string {
	if known, ok := c.interned[s]; ok {
		return known
	}
	c.interned[s] = s
	return s
}

// posting takes in one live posting of the index.
func (c *comparison) posting(p generation.Posting) error {
	if !c.sampled(p.Key) {
		return nil
	}
	k := c.keys[p.Key]
	if k == nil {
		k = &keyState{}
		c.keys[p.Key] = k
	}
	at := p.Locator
	at.Partition, at.FileID, at.BaseInstant = c.intern(at.Partition), c.intern(at.FileID), c.intern(at.BaseInstant)
	k.postings = append(k.postings, stored{cluster: p.Cluster, code: digest(p.Binary, p.Factors), residual: p.Factors.ResidualNorm,
		vectorNorm: p.Factors.VectorNorm, hasNorm: !p.Packed || c.gen.Shape().VectorNorm, locator: at})
	return nil
}

// digest stands for a code and its factors, the vector's norm left out: blocks have it only where estimates need it.
func digest(code []byte, f rabitq.Factors) (out [16]byte) {
	b := append([]byte(nil), code...)
	for _, v := range []float32{f.FAdd1, f.FRescale1, f.Err1, f.FAddEx, f.FRescaleEx, f.ResidualNorm} {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	sum := sha256.Sum256(b)
	copy(out[:], sum[:])
	return out
}

// table meets the postings with all rows of the snapshot.
func (c *comparison) table(ctx context.Context, t *table.Table, x *mdt.Index, cut table.Cut) error {
	files, err := t.Files(ctx)
	if err != nil {
		return err
	}
	columns := table.Columns{Vectors: []string{x.Column}}
	completion := table.CompletedIn(t.Completion, func(i timeline.Instant) bool {
		return (cut.In == nil || cut.In(i)) && (cut.Upto == "" || i.Completed <= cut.Upto)
	})
	for s, err := range files.Slices(cut) {
		if err != nil {
			if errors.Is(err, storage.ErrNotFound) {
				hint := "the table has cleaned what the index stands at: sync first, or drop the index and create it again"
				if !slices.ContainsFunc(t.Timeline.Writes(), func(i timeline.Instant) bool {
					return cut.In != nil && !cut.In(i) || cut.Upto != "" && i.Completed > cut.Upto
				}) {
					hint = "the table has lost it: restore the file from a copy, or the table to a savepoint with Hudi's tools, then run the same command again"
				}
				return &storage.Error{Op: "read snapshot", Path: s.Group.String(), Err: err, Hint: hint}
			}
			return err
		}
		c.slices, c.completion = append(c.slices, s), completion
		err := t.ReadMerged(ctx, s, columns, func(r table.Row) error {
			c.row(r, s)
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// row judges one live row against the postings of its key.
func (c *comparison) row(r table.Row, s table.Slice) {
	if !c.sampled(r.Key) {
		return
	}
	if c.rows++; c.request.Progress != nil && c.rows%1024 == 0 {
		c.request.Progress(c.rows)
	}
	ok, reason := kernel.Narrow(c.vector, r.Vectors[0], c.gen.Vector.Element.Kernel(), c.gen.Metric)
	if !ok {
		c.unindexable++
		c.reasons[reason]++
		c.unindexableKeys = append(c.unindexableKeys, r.Key)
	}
	k := c.keys[r.Key]
	if k == nil {
		k = &keyState{}
		c.keys[r.Key] = k
	}
	if !c.counts(k, r, s) {
		return
	}
	if k.dead = !ok; k.dead {
		k.row = nil
		return
	}
	c.judge(k, r.Vectors[0], delta.Locator{Partition: r.Partition, FileID: s.FileID, BaseInstant: s.Instant, Position: r.Position})
}

// counts takes in one more live row of a key and reports whether it is the one that counts, as table.Written.Compare has it. Slices come
// in the order of their groups.
func (c *comparison) counts(k *keyState, r table.Row, s table.Slice) bool {
	w := table.WrittenAt(c.completion, s.Group, s.Instant, r.CommitTime, r.Position)
	order, slice := w.Completed+"\x00"+w.Requested, int32(len(c.slices)-1)
	if k.copies++; k.copies > 1 {
		if k.in == nil {
			k.in = []int32{k.slice}
		}
		if !slices.Contains(k.in, slice) {
			k.in = append(k.in, slice)
		}
		if cmp.Or(cmp.Compare(order, k.order), cmp.Compare(slice, k.slice), cmp.Compare(r.Position, k.position)) <= 0 {
			return false
		}
	}
	k.order, k.slice, k.position = c.intern(order), slice, r.Position
	return true
}

// copies returns the keys that live more than once, as the state keeps them.
func (c *comparison) copies() *mdt.Copies {
	var keys []mdt.CopiedKey
	for key, k := range c.keys {
		if k.copies < 2 {
			continue
		}
		x := mdt.CopiedKey{Key: key, Rows: int64(k.copies)}
		add := func(slice int32) {
			g := c.slices[slice].Group
			x.Groups = append(x.Groups, mdt.CopiedIn{Partition: g.Partition, FileID: g.FileID})
		}
		add(k.slice)
		for _, slice := range k.in {
			if slice != k.slice {
				add(slice)
			}
		}
		keys = append(keys, x)
	}
	return mdt.NewCopies(keys, false)
}

// judge compares the postings of a key with the vector at hand, whose stored bytes are raw.
func (c *comparison) judge(k *keyState, raw []byte, at delta.Locator) {
	nearest := c.gen.Cluster(c.vector)
	for i := range k.postings {
		p := &k.postings[i]
		p.verdict = p.compare(c.gen.Encode(c.vector, p.cluster))
		if p.verdict != stale && p.cluster != nearest {
			p.verdict |= misrouted
		}
		if p.verdict == 0 && p.locator != at {
			p.verdict = wrongLocator
		}
	}
	k.row = nil
	if c.keep && (len(k.postings) != 1 || k.postings[0].verdict != 0) {
		k.row = &delta.Version{Raw: bytes.Clone(raw), Vector: slices.Clone(c.vector), Locator: at}
	}
}

// compare tells a code of other vector bytes from another code of the same ones: the length of the residual is not coded, it
// comes from the vector as it is.
func (p *stored) compare(code rabitq.Code) verdict {
	norm := !p.hasNorm || p.vectorNorm == code.F.VectorNorm
	if norm && p.code == digest(rabitq.DeltaBinary(nil, code), code.F) {
		return 0
	}
	if p.residual != code.F.ResidualNorm || !norm {
		return stale
	}
	return wrongCode
}

// finish counts the verdicts.
func (c *comparison) finish(report *VerifyReport, degraded map[table.Group]bool) {
	report.Unindexable, report.Reasons = c.unindexable, c.reasons
	slices.Sort(c.unindexableKeys)
	for _, key := range c.unindexableKeys {
		report.example("unindexable", key, c.request.Examples)
	}
	for _, key := range slices.Sorted(maps.Keys(c.keys)) {
		c.count(report, key, c.keys[key], degraded)
	}
	report.OK = report.equal()
	if c.request.Progress != nil {
		c.request.Progress(c.rows)
	}
}

func (c *comparison) count(report *VerifyReport, key string, k *keyState, degraded map[table.Group]bool) {
	note := func(class string, n *int64) {
		*n++
		report.example(class, key, c.request.Examples)
	}
	if k.copies > 1 {
		note("duplicate_keys", &report.DuplicateKeys)
	}
	if k.copies == 0 || k.dead {
		for _, p := range k.postings {
			if degraded[table.Group{Partition: p.locator.Partition, FileID: p.locator.FileID}] {
				note("hidden", &report.Hidden)
			} else {
				note("extra", &report.Extra)
			}
		}
		return
	}
	report.Checked++
	if len(k.postings) == 0 {
		note("missing", &report.Missing)
	}
	right := 0
	for _, p := range k.postings {
		if p.verdict&stale != 0 {
			note("stale", &report.Stale)
		}
		if p.verdict&misrouted != 0 {
			note("misrouted", &report.Misrouted)
		}
		if p.verdict&wrongCode != 0 {
			note("wrong_code", &report.WrongCode)
		}
		if p.verdict&wrongLocator != 0 {
			note("wrong_locator", &report.WrongLocator)
		}
		if p.verdict&^wrongLocator == 0 {
			right++
		}
	}
	// A second posting of one key is one too many, however right.
	if right > 1 {
		note("extra", &report.Extra)
	}
}
