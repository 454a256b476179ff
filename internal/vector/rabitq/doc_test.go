package rabitq

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/testkit"
)

// The worked example of docs/format/rabitq.md, made by the code.
func example() string {
	rot := NewRotation(4, 42)
	v, c := []float32{1, -2, 3, 0}, []float32{1, 1, 1, 1}
	rc := rot.ApplyAll(c)
	code := NewEncoder(rot, 4).Encode(v, rc)
	words := func(x ...float32) string {
		var out []string
		for _, f := range x {
			out = append(out, fmt.Sprintf("%08x", math.Float32bits(f)))
		}
		return strings.Join(out, " ")
	}
	rv := rot.ApplyAll(v)
	residual := make([]float32, 4)
	for i := range rv {
		residual[i] = rv[i] - rc[i]
	}
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-16s %s\n", name, value) }
	for i := range 4 {
		line(fmt.Sprintf("R[%d]", i), words(rot.Row(i)...))
	}
	line("Rv", words(rv...))
	line("Rc", words(rc...))
	line("r", words(residual...))
	line("levels", fmt.Sprint(code.Levels))
	line("binaryCode", fmt.Sprintf("% x", DeltaBinary(nil, code)))
	line("sign row", fmt.Sprintf("% x", AppendSignRow(nil, 4, code)))
	planes := AppendExPlanes(nil, 4, code)
	for p := range 3 {
		line(fmt.Sprintf("ex plane %d", p), fmt.Sprintf("% x", planes[p*8:(p+1)*8]))
	}
	f := code.F
	line("fAdd1, fAddEx", words(f.FAdd1, f.FAddEx))
	line("fRescale1, Ex", words(f.FRescale1, f.FRescaleEx))
	line("err1", words(f.Err1))
	line("residualNorm", words(f.ResidualNorm))
	line("vectorNorm", words(f.VectorNorm))
	return b.String()
}

func TestFormatPageShowsTheRealBytes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "format", "rabitq.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := example(); !strings.Contains(string(page), want) {
		t.Errorf("docs/format/rabitq.md does not show:\n%s", want)
	}
}
