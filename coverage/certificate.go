package coverage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"tidemark/internal/storage"
	"tidemark/timeline"
)

// CertificateFormat is the version of a certificate that this code writes and checks. Any other is refused.
const CertificateFormat = 1

// Certificate states what an index covered at a time, with the evidence for it: digests of the commits' metadata and of their
// markers. Whoever has the table can check it (CheckCertificate) without trusting who made it. docs/format/certificate.md
// describes it.
type Certificate struct {
	Format int    `json:"format"`
	Table  string `json:"table"` // hoodie.table.name
	Index  string `json:"index"`
	Column string `json:"column"`
	// Generation is the active generation, Built the commit of the metadata table that holds its base files.
	Generation uint32    `json:"generation"`
	Built      string    `json:"built"`
	Time       time.Time `json:"time"` // when it was made, by the clock of who made it
	// Frontier is the durable frontier; null if there is none. Latest is the newest completed data write of the table.
	Frontier *Times `json:"frontier"`
	Latest   *Times `json:"latest"`
	// Fresh says that exactly the completed data writes up to Latest were covered.
	Fresh bool `json:"fresh"`
	// Before is the requested time of the earliest active instant when the baseline was read: what was archived then is in it.
	Before   string   `json:"before"`
	Baseline []Proved `json:"baseline"`
	Covered  []Proved `json:"covered"`
	// InFlight are the data writes that had begun and not completed.
	InFlight []Gap `json:"in_flight"`
	OK       bool  `json:"ok"` // always true: what cannot be proved gets no certificate
	// Digest is the hex SHA-256 of the certificate's compact form with an empty digest.
	Digest string `json:"digest"`
}

// Proved is one covered commit with its evidence.
type Proved struct {
	Requested string          `json:"requested"`
	Completed string          `json:"completed"`
	Action    timeline.Action `json:"action"`
	// Metadata is the hex SHA-256 of the commit's metadata file, the same after it was archived.
	Metadata string `json:"metadata"`
	// Marker is the hex SHA-256 of the marker's record; "" for the baseline, which has none.
	Marker string `json:"marker,omitempty"`
	// MDTInstant is the commit of the metadata table that holds the marker.
	MDTInstant string `json:"mdt_instant,omitempty"`
}

// Encode returns the certificate's bytes: one line, or indented for people.
func (c *Certificate) Encode(indent bool) ([]byte, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode certificate: %w", err)
	}
	if indent {
		var out bytes.Buffer
		if err := json.Indent(&out, b, "", "  "); err != nil {
			return nil, fmt.Errorf("encode certificate: %w", err)
		}
		b = out.Bytes()
	}
	return append(b, '\n'), nil
}

// sum returns what Digest has to be.
func (c *Certificate) sum() (string, error) {
	d := *c
	d.Digest = ""
	b, err := d.Encode(false)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:]), nil
}

// DecodeCertificate reads a certificate. Its bytes must be exactly those that Encode returns: anything else, even another
// blank, is storage.ErrCorrupt. Another format is storage.ErrUnsupported.
func DecodeCertificate(b []byte) (*Certificate, error) {
	var not struct {
		Error *string `json:"error"`
	}
	if json.Unmarshal(b, &not) == nil && not.Error != nil {
		return nil, fmt.Errorf("decode certificate: it is what prove says when it makes none: %.200q; make one: tidemark prove TABLE: %w", *not.Error, storage.ErrCorrupt)
	}
	c := &Certificate{}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(c); err != nil {
		return nil, fmt.Errorf("decode certificate: %v: %w", err, storage.ErrCorrupt)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("decode certificate: bytes after its end: %w", storage.ErrCorrupt)
	}
	if c.Format != CertificateFormat {
		return nil, &storage.Error{Op: "decode certificate", Hint: "use the tidemark version that made it, or a newer one",
			Err: fmt.Errorf("format %d, this build knows %d: %w", c.Format, CertificateFormat, storage.ErrUnsupported)}
	}
	sum, err := c.sum()
	if err != nil {
		return nil, err
	}
	if sum != c.Digest {
		return nil, fmt.Errorf("decode certificate: its digest is %.12s…, its content's %.12s…: %w", c.Digest, sum, storage.ErrCorrupt)
	}
	for _, indent := range []bool{false, true} {
		same, err := c.Encode(indent)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(same, b) {
			return c, nil
		}
	}
	return nil, fmt.Errorf("decode certificate: its bytes are not those that prove wrote, although they say the same: %w", storage.ErrCorrupt)
}
