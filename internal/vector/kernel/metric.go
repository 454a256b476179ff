package kernel

import (
	"fmt"
	"strings"

	"tidemark/internal/vector/simd"
)

// Form is the form of the inner loops that this process uses, in one word: avx512, avx2 or portable. All give the same
// results.
func Form() string { return simd.Name() }

// Metric says how near two vectors are. For each of them a smaller distance is nearer.
type Metric int

// The metrics of RFC-109 (R113).
const (
	// L2 is the Euclidean distance; distances shown to people are squared.
	L2 Metric = iota
	// Cosine is 1 − cos.
	Cosine
	// Dot is the negated dot product.
	Dot
)

// ParseMetric reads the value of the option vector.metric, or the name in a manifest. Case, spaces and hyphens do not
// matter: "cosine", "L2", "dot_product", "Dot-Product", "DOT".
func ParseMetric(s string) (Metric, error) {
	folded := strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(s)))
	switch folded {
	case "l2":
		return L2, nil
	case "cosine":
		return Cosine, nil
	case "dot_product", "dot":
		return Dot, nil
	}
	return 0, fmt.Errorf("parse metric %q: want cosine, l2 or dot_product", s)
}

// String is the canonical value of the option vector.metric.
func (m Metric) String() string {
	switch m {
	case L2:
		return "l2"
	case Cosine:
		return "cosine"
	case Dot:
		return "dot_product"
	}
	return fmt.Sprintf("metric(%d)", int(m))
}

// Manifest is the name that a generation's manifest stores (docs/format/records.md).
func (m Metric) Manifest() string {
	switch m {
	case L2:
		return "L2"
	case Cosine:
		return "COSINE"
	case Dot:
		return "DOT"
	}
	return m.String()
}
