package coverage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tidemark/delta"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// CertificateCheck is what became of a certificate. Its JSON form is fixed (design, section 5).
type CertificateCheck struct {
	OK         bool   `json:"ok"`
	Index      string `json:"index"`
	Generation uint32 `json:"generation"`
	// Frontier, Covered (with the baseline) and Digest are the certificate's.
	Frontier *Times  `json:"frontier"`
	Covered  []Times `json:"covered"`
	Digest   string  `json:"digest"`
	// Problems says what differs, one clause each; empty if the certificate is accepted.
	Problems []string `json:"problems"`
	// Since is the number of commits that completed after the certificate was made; null if that cannot be told.
	Since *int `json:"since"`
}

// Sentence says the result for people.
func (c *CertificateCheck) Sentence() string {
	if !c.OK {
		text := "refused: " + c.Problems[0]
		if n := len(c.Problems) - 1; n > 0 {
			text += fmt.Sprintf(" (and %s more)", count(n, "difference"))
		}
		return text
	}
	text := fmt.Sprintf("accepted: index %s, generation %d, covers the %s of the certificate", c.Index, c.Generation, count(len(c.Covered), "commit"))
	if c.Frontier != nil {
		text += ", frontier " + c.Frontier.Requested
	}
	if c.Since != nil && *c.Since > 0 {
		text += fmt.Sprintf("; %s completed since", count(*c.Since, "commit"))
	}
	return text
}

func (c *CertificateCheck) problem(format string, args ...any) {
	c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
}

// CheckCertificate compares a certificate with what storage says now, and with nothing else: the timelines, the files of the
// index, the state. It is accepted if everything that it states still holds; an index that has gone on since, commits that were
// archived and writes that were in flight and are no more do not matter. A commit that was undone, changed or lost, a marker or a
// frontier that is gone, other bytes of the certificate, and a commit that completed at or below its frontier and is not in it,
// do. An error means that storage could not be read, not that it differs.
func CheckCertificate(ctx context.Context, d Deps, b []byte) (*CertificateCheck, error) {
	r := &CertificateCheck{Covered: []Times{}, Problems: []string{}}
	c, err := DecodeCertificate(b)
	if err != nil {
		r.problem("%v", err)
		return r, nil
	}
	r = newCheck(c)
	e, err := collect(ctx, d, c.Index)
	if err == nil {
		err = r.compare(ctx, d, c, e)
	}
	if err != nil {
		if ctx.Err() != nil || !differs(err) {
			return nil, err
		}
		r.problem("%v", err)
	}
	r.OK = len(r.Problems) == 0
	return r, nil
}

// newCheck is the check of a certificate that nothing was compared with yet.
func newCheck(c *Certificate) *CertificateCheck {
	r := &CertificateCheck{Index: c.Index, Generation: c.Generation, Frontier: c.Frontier, Digest: c.Digest, Covered: []Times{}, Problems: []string{}}
	for _, p := range slices.Concat(c.Baseline, c.Covered) {
		r.Covered = append(r.Covered, Times{p.Requested, p.Completed})
	}
	return r
}

// differs says that an error is about what storage holds, not about reading it.
func differs(err error) bool {
	for _, kind := range []error{storage.ErrCorrupt, storage.ErrNotFound, storage.ErrStale, storage.ErrUnsupported} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

func (r *CertificateCheck) compare(ctx context.Context, d Deps, c *Certificate, e *evidence) error {
	if name := e.props.Raw["hoodie.table.name"]; name != c.Table {
		r.problem("it is about table %q, this one is %q", c.Table, name)
	}
	if e.index.Column != c.Column {
		r.problem("it is about column %q, the index is on %q", c.Column, e.index.Column)
	}
	if e.generation.Number != c.Generation || e.generation.Built != c.Built {
		r.problem("it is about generation %d of metadata commit %s, now it is %d of %s", c.Generation, c.Built, e.generation.Number, e.generation.Built)
		return nil // markers of another generation prove nothing
	}
	for _, p := range c.Baseline {
		if err := r.entry(ctx, p, e); err != nil {
			return err
		}
	}
	for _, p := range c.Covered {
		if err := r.entry(ctx, p, e); err != nil {
			return err
		}
		r.marker(p, e)
	}
	if err := r.claims(ctx, d, c, e); err != nil {
		return err
	}
	return r.frontier(ctx, c, e)
}

// entry compares one commit: it is still on a timeline, incorporated, and what it was.
func (r *CertificateCheck) entry(ctx context.Context, p Proved, e *evidence) error {
	now, err := e.prove(ctx, p.Requested, p.Completed)
	switch {
	case err != nil && (ctx.Err() != nil || !differs(err)):
		return err
	case err != nil:
		r.problem("metadata of commit %s: %v", p.Requested, err)
	case now.Metadata == "":
		r.problem("commit %s, completed %s, is on neither timeline: it was rolled back or restored away, or the archive was cut", p.Requested, p.Completed)
	case now.Action != p.Action:
		r.problem("commit %s is a %s, the certificate says %s", p.Requested, now.Action, p.Action)
	case now.Metadata != p.Metadata:
		r.problem("metadata of commit %s: sha-256 is %.12s…, the certificate says %.12s…", p.Requested, now.Metadata, p.Metadata)
	case !e.holds(p.Requested, p.Completed):
		r.problem("commit %s is no longer called covered by the index", p.Requested)
	}
	return nil
}

// marker compares one marker. A newer record may name further commits of the same completion time.
func (r *CertificateCheck) marker(p Proved, e *evidence) {
	m, ok := e.markers[p.Completed]
	switch {
	case !ok:
		r.problem("the marker of commit %s, at %s, is gone", p.Requested, p.Completed)
	case !slices.Contains(m.requested, p.Requested):
		r.problem("the marker at %s names %s and not commit %s", p.Completed, strings.Join(m.requested, ","), p.Requested)
	case m.digest != p.Marker && !grown(m, p):
		r.problem("the marker of commit %s: sha-256 is %.12s…, the certificate says %.12s…", p.Requested, m.digest, p.Marker)
	case m.digest == p.Marker && m.id != p.MDTInstant:
		r.problem("the marker of commit %s was written by metadata commit %s, the certificate says %s", p.Requested, m.id, orNone(p.MDTInstant))
	}
}

// grown says whether the certificate's marker named some of the commits that the present one names.
func grown(m marker, p Proved) bool {
	if len(m.requested) == 1 || len(m.requested) > maxSharedTime {
		return false
	}
	for pick := range 1 << len(m.requested) {
		var some []string
		for i, requested := range m.requested {
			if pick&(1<<i) != 0 {
				some = append(some, requested)
			}
		}
		sum := sha256.Sum256(delta.EncodeRecord(nil, &delta.SourceInstantMarker{DataInstant: strings.Join(some, ",")}))
		if slices.Contains(some, p.Requested) && hex.EncodeToString(sum[:]) == p.Marker {
			return true
		}
	}
	return false
}

// maxSharedTime bounds how many commits of one completion time are tried: Hudi's clock gives a time to one of them.
const maxSharedTime = 12

// frontier checks that the index has not fallen behind the certificate's, and that no commit contradicts it.
func (r *CertificateCheck) frontier(ctx context.Context, c *Certificate, e *evidence) error {
	upto, now := "", e.index.Frontier
	if c.Frontier != nil {
		upto = c.Frontier.Completed
		switch {
		case now.Completed < upto:
			r.problem("the frontier is %s now, the certificate says %s", orNone(now.Completed), upto)
		case now.Completed == upto && now.Requested != c.Frontier.Requested:
			r.problem("the frontier is commit %s now, the certificate says %s", now.Requested, c.Frontier.Requested)
		}
	}
	what := "its frontier"
	if c.Fresh && c.Latest != nil && c.Latest.Completed > upto {
		upto, what = c.Latest.Completed, "the snapshot that it calls covered"
	}
	var claimed []timeline.Instant
	if upto != "" {
		var err error
		if claimed, err = e.claimed(ctx, c.Before, upto); err != nil {
			return err
		}
	}
	in := map[Times]bool{}
	for _, t := range r.Covered {
		in[t] = true
	}
	newest := ""
	if at := e.manifest.BootstrapInstant; at != nil {
		newest = *at
	}
	for _, w := range claimed {
		if _, active := e.tl.CompletionOf(w.Requested); !active && w.Completed <= newest {
			continue // a commit of the baseline, archived before the certificate was made
		}
		if !in[Times{w.Requested, w.Completed}] {
			r.problem("%s %s completed at %s, which is at or before %s, and is not in the certificate", w.Action, w.Requested, w.Completed, what)
		}
	}
	if c.Latest != nil {
		since := 0
		for _, w := range e.tl.Writes() {
			if w.Completed > c.Latest.Completed {
				since++
			}
		}
		r.Since = &since
	}
	return nil
}
