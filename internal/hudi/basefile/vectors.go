package basefile

import (
	"fmt"
	"strconv"
	"strings"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
)

// parseVectors reads "a:VECTOR(8),b:VECTOR(8, DOUBLE)". Commas inside parentheses do not separate columns.
func parseVectors(text string) ([]avrox.Vector, error) {
	var out []avrox.Vector
	for _, item := range splitTop(text) {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		colon := strings.LastIndex(item, ":")
		if colon <= 0 {
			return nil, fmt.Errorf("%q has no type: %w", item, storage.ErrCorrupt)
		}
		v := avrox.Vector{Column: item[:colon], Element: avrox.ElementFloat}
		typ := strings.ToUpper(strings.TrimSpace(item[colon+1:]))
		inner, ok := strings.CutPrefix(typ, "VECTOR(")
		inner, closed := strings.CutSuffix(inner, ")")
		dim, elem, given := strings.Cut(inner, ",")
		if given {
			v.Element = avrox.Element(strings.TrimSpace(elem))
		}
		n, err := strconv.Atoi(strings.TrimSpace(dim))
		if !ok || !closed || err != nil || n <= 0 || v.Element.Width() == 0 {
			return nil, fmt.Errorf("%q is no vector type: %w", item, storage.ErrCorrupt)
		}
		v.Dim = n
		out = append(out, v)
	}
	return out, nil
}

// splitTop splits at commas outside parentheses.
func splitTop(s string) []string {
	var out []string
	depth, from := 0, 0
	for i, r := range s {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, s[from:i])
				from = i + 1
			}
		}
	}
	return append(out, s[from:])
}
