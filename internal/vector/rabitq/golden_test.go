package rabitq

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"tidemark/internal/testkit"
	"tidemark/internal/vector/kernel"
)

type b32 float32

func (b *b32) UnmarshalJSON(p []byte) error {
	if string(p) == "null" {
		return nil
	}
	u, err := strconv.ParseUint(string(p[1:len(p)-1]), 16, 32)
	*b = b32(math.Float32frombits(uint32(u)))
	return err
}

type b64 float64

func (b *b64) UnmarshalJSON(p []byte) error {
	u, err := strconv.ParseUint(string(p[1:len(p)-1]), 16, 64)
	*b = b64(math.Float64frombits(u))
	return err
}

type v32 struct{ Bits b32 }
type v64 struct{ Bits b64 }

func floats(in []b32) []float32 {
	if in == nil {
		return nil
	}
	out := make([]float32, len(in))
	for i, x := range in {
		out[i] = float32(x)
	}
	return out
}

func golden(t testing.TB, name string, into any) {
	t.Helper()
	if err := json.Unmarshal(testkit.File(t, "golden/vector-index/"+name), into); err != nil {
		t.Fatal(err)
	}
}

func sameBits32(t *testing.T, what string, got []float32, want []b32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(float32(want[i])) {
			t.Errorf("%s[%d]: got %v, want %v", what, i, got[i], want[i])
		}
	}
}

func sameBits64(t *testing.T, what string, got float64, want b64) {
	t.Helper()
	if math.Float64bits(got) != math.Float64bits(float64(want)) {
		t.Errorf("%s: got %v, want %v", what, got, float64(want))
	}
}

func TestGoldenRotation(t *testing.T) {
	t.Parallel()
	var g struct {
		Random []struct {
			Seed      int64
			Ints      []int32 `json:"next_int"`
			Doubles   []b64   `json:"next_double_bits"`
			Gaussians []b64   `json:"next_gaussian_bits"`
		} `json:"java_util_random"`
		Logs []struct {
			X   b64 `json:"x_bits"`
			Log b64 `json:"strictmath_log_bits"`
		} `json:"strictmath_log_samples"`
		Matrices []struct {
			Dim    int
			Seed   int64
			Digest string  `json:"rotation_digest_sha256"`
			Rows   [][]b32 `json:"rows_float32_bits"`
		}
		Digests []struct {
			Dim      int
			Seed     int64
			Digest   string `json:"rotation_digest_sha256"`
			First    []b32  `json:"row0_first16_bits"`
			Last     []b32  `json:"last_row_first16_bits"`
			Diagonal []b32  `json:"diagonal_bits"`
		}
	}
	golden(t, "rotation.json", &g)
	for _, c := range g.Random {
		ints, doubles, gaussians := newJavaRandom(c.Seed), newJavaRandom(c.Seed), newJavaRandom(c.Seed)
		for i, want := range c.Ints {
			if got := ints.bits(32); got != want {
				t.Errorf("seed %d: int %d: got %d, want %d", c.Seed, i, got, want)
			}
		}
		for i, want := range c.Doubles {
			sameBits64(t, fmt.Sprintf("seed %d: double %d", c.Seed, i), doubles.float64(), want)
		}
		for i, want := range c.Gaussians {
			sameBits64(t, fmt.Sprintf("seed %d: gaussian %d", c.Seed, i), gaussians.gaussian(), want)
		}
	}
	for _, c := range g.Logs {
		sameBits64(t, fmt.Sprintf("log %v", float64(c.X)), fdlibmLog(float64(c.X)), c.Log)
	}
	if len(g.Random) == 0 || len(g.Logs) == 0 || len(g.Matrices) == 0 || len(g.Digests) == 0 {
		t.Fatal("golden file is empty")
	}
	for _, c := range g.Matrices {
		r := NewRotation(c.Dim, c.Seed)
		for i, row := range c.Rows {
			sameBits32(t, fmt.Sprintf("matrix %d/%d row %d", c.Dim, c.Seed, i), r.Row(i), row)
		}
		if got := r.Digest(); got != c.Digest {
			t.Errorf("digest of %d/%d: got %s, want %s", c.Dim, c.Seed, got, c.Digest)
		}
	}
	for _, c := range g.Digests {
		t.Run(fmt.Sprintf("%d/%d", c.Dim, c.Seed), func(t *testing.T) {
			t.Parallel()
			r := makeRotation(c.Dim, c.Seed) // not kept: the cache is for rotations in use
			sameBits32(t, "first row", r.Row(0)[:len(c.First)], c.First)
			sameBits32(t, "last row", r.Row(c.Dim - 1)[:len(c.Last)], c.Last)
			for i, want := range c.Diagonal {
				sameBits32(t, "diagonal", r.Row(i)[i:i+1], []b32{want})
			}
			if got := r.Digest(); got != c.Digest {
				t.Errorf("digest: got %s, want %s", got, c.Digest)
			}
		})
	}
}

func TestLogEdges(t *testing.T) {
	t.Parallel()
	if got := fdlibmLog(0); !math.IsInf(got, -1) {
		t.Errorf("log 0: got %v", got)
	}
	if got := fdlibmLog(-1); !math.IsNaN(got) {
		t.Errorf("log -1: got %v", got)
	}
	if got := fdlibmLog(math.Inf(1)); !math.IsInf(got, 1) {
		t.Errorf("log Inf: got %v", got)
	}
	if got, want := fdlibmLog(5e-324), -744.4400719213812; got != want {
		t.Errorf("log of the smallest number: got %v, want %v", got, want)
	}
	for _, x := range []float64{1, 2, 1 + 0x1p-30, 4 + 0x1p-30, 1e300, 1.4, 0.7, 3} {
		if got, want := fdlibmLog(x), math.Log(x); math.Abs(got-want) > 1e-15*max(1, math.Abs(want)) {
			t.Errorf("log %v: got %v, want about %v", x, got, want)
		}
	}
}

func TestGoldenEncodings(t *testing.T) {
	t.Parallel()
	var g struct {
		Cases []struct {
			Case      string
			Dim, Bits int
			Seed      int64
			Vector    []b32  `json:"vector_bits"`
			Center    []b32  `json:"center_bits"`
			RV        []b32  `json:"rotated_vector_bits"`
			RC        []b32  `json:"rotated_center_bits"`
			Residual  []b32  `json:"residual_bits"`
			Factor    *b64   `json:"rescale_factor_bits"`
			Levels    []int  `json:"levels_after_complement"`
			Sign      string `json:"sign_code_hex"`
			Extended  string `json:"extended_code_hex"`
			Delta     string `json:"delta_binary_code_hex"`
			SignRow   string `json:"sign_plane_row_hex"`
			ExPlanes  string `json:"ex_planes_hex"`
			Factors   map[string]v32
		}
	}
	golden(t, "encodings.json", &g)
	if len(g.Cases) == 0 {
		t.Fatal("golden file is empty")
	}
	for n, c := range g.Cases {
		name := fmt.Sprintf("%d %s D=%d B=%d", n, c.Case, c.Dim, c.Bits)
		rot := NewRotation(c.Dim, c.Seed)
		rv := make([]float32, c.Dim)
		rot.Apply(rv, floats(c.Vector))
		if c.RV != nil { // left out for the longer vectors
			sameBits32(t, name+": rotated vector", rv, c.RV)
		}
		var rc []float32
		if c.Center != nil {
			rc = make([]float32, c.Dim)
			rot.Apply(rc, floats(c.Center))
			if c.RC != nil {
				sameBits32(t, name+": rotated centre", rc, c.RC)
			}
		}
		enc := NewEncoder(rot, c.Bits)
		scratch, code := enc.newScratch(), enc.empty(make([]byte, enc.codeBytes()))
		scratch.encode(&code, floats(c.Vector), rv, rc)
		r := scratch.r
		if c.Residual != nil {
			sameBits32(t, name+": residual", r, c.Residual)
		}
		if c.Factor != nil {
			rn := float32(math.Sqrt(kernel.SquaredNorm64(r)))
			sameBits64(t, name+": grid factor", newChoice(c.Bits, Reference).levels(make([]byte, c.Dim), scratch.a, r, rn), *c.Factor)
		}
		for i, want := range c.Levels {
			if c.Bits > 1 && int(code.Levels[i]) != want {
				t.Errorf("%s: level %d: got %d, want %d", name, i, code.Levels[i], want)
			}
		}
		delta := DeltaBinary(nil, code)
		for _, x := range []struct {
			what, want string
			got        []byte
		}{
			{"sign code", c.Sign, code.Sign},
			{"extended code", c.Extended, delta[SignBytes(c.Dim):]},
			{"delta code", c.Delta, delta},
			{"sign row", c.SignRow, AppendSignRow(nil, c.Dim, code)},
			{"ex planes", c.ExPlanes, AppendExPlanes(nil, c.Dim, code)},
		} {
			if got := hex.EncodeToString(x.got); got != x.want {
				t.Errorf("%s: %s: got %s, want %s", name, x.what, got, x.want)
			}
		}
		f := code.F
		for what, got := range map[string]float32{"fAdd1": f.FAdd1, "fRescale1": f.FRescale1, "err1": f.Err1,
			"fAddEx": f.FAddEx, "fRescaleEx": f.FRescaleEx, "residualNorm": f.ResidualNorm, "vectorNorm": f.VectorNorm} {
			sameBits32(t, name+": "+what, []float32{got}, []b32{c.Factors[what].Bits})
		}
		v := floats(c.Vector)
		for i, again := range append(enc.EncodeAll(slices.Repeat(v, 9), func(int) []float32 { return rc }), enc.Encode(v, rc)) {
			if got := hex.EncodeToString(DeltaBinary(nil, again)); got != c.Delta || again.F != f {
				t.Errorf("%s: %d of EncodeAll, or Encode, differs from encode", name, i)
			}
		}
	}
}

func TestGoldenEstimators(t *testing.T) {
	t.Parallel()
	var g struct {
		Cases []struct {
			Dim, Bits        int
			Metric           string
			AssumeNormalized bool `json:"assume_normalized"`
			Seed             int64
			Query            []b32 `json:"query_bits"`
			Centroid         []b32 `json:"centroid_bits"`
			W                []b32 `json:"rotated_residual_query_bits"`
			Sum              b32   `json:"query_sum_bits"`
			W2               b64   `json:"w_norm_sq_bits"`
			QC               b64   `json:"q_dot_c_bits"`
			Norm             b64   `json:"query_norm_bits"`
			Rows             []struct {
				Vector     []b32           `json:"vector_bits"`
				SignRow    string          `json:"sign_row_hex"`
				Extended   string          `json:"extended_code_hex"`
				Factors    map[string]*b32 `json:"factors_bits"`
				SignDot    b64             `json:"sign_dot_bits"`
				IP1        b32             `json:"pass1_dot_bits"`
				Optimistic v64             `json:"pass1_optimistic_distance"`
				IP2        b32             `json:"pass2_dot_bits"`
				Estimate   v64             `json:"estimated_distance"`
				DeltaIP    b32             `json:"delta_path_dot_bits"`
				Delta      v64             `json:"delta_path_distance"`
			}
		}
	}
	golden(t, "estimators.json", &g)
	if len(g.Cases) == 0 {
		t.Fatal("golden file is empty")
	}
	for n, c := range g.Cases {
		metric, err := kernel.ParseMetric(c.Metric)
		if err != nil {
			t.Fatal(err)
		}
		rot := NewRotation(c.Dim, c.Seed)
		q, err := NewQuery(rot, metric, c.AssumeNormalized, floats(c.Query))
		if err != nil {
			t.Fatal(err)
		}
		rc := rot.ApplyAll(floats(c.Centroid))
		cq := q.Cluster(rc)
		name := fmt.Sprintf("%d D=%d B=%d %s", n, c.Dim, c.Bits, c.Metric)
		sameBits32(t, name+": w", cq.w, c.W)
		sameBits32(t, name+": sum", []float32{cq.sum}, []b32{c.Sum})
		sameBits64(t, name+": w2", cq.w2, c.W2)
		if metric != kernel.L2 { // the reference does not compute it for L2
			sameBits64(t, name+": qc", cq.qc, c.QC)
		}
		sameBits64(t, name+": norm", q.norm, c.Norm)
		enc := NewEncoder(rot, c.Bits)
		for i, row := range c.Rows {
			name := fmt.Sprintf("%s row %d", name, i)
			code := enc.Encode(floats(row.Vector), rc)
			delta := DeltaBinary(nil, code)
			if got := hex.EncodeToString(AppendSignRow(nil, c.Dim, code)); got != row.SignRow {
				t.Errorf("%s: sign row: got %s, want %s", name, got, row.SignRow)
			}
			if got := hex.EncodeToString(delta[SignBytes(c.Dim):]); got != row.Extended {
				t.Errorf("%s: extended code: got %s, want %s", name, got, row.Extended)
			}
			f := code.F
			for what, got := range map[string]float32{"fAdd1": f.FAdd1, "fRescale1": f.FRescale1, "err1": f.Err1,
				"fAddEx": f.FAddEx, "fRescaleEx": f.FRescaleEx, "residualNorm": f.ResidualNorm, "vectorNorm": f.VectorNorm} {
				if want := row.Factors[what]; want != nil { // a block has vectorNorm only where COSINE needs it
					sameBits32(t, name+": "+what, []float32{got}, []b32{*want})
				}
			}
			signDot, optimistic := cq.Pass1(AppendSignRow(nil, c.Dim, code), &f)
			planes := AppendExPlanes(nil, c.Dim, code)
			sameBits64(t, name+": sign dot", signDot, row.SignDot)
			sameBits32(t, name+": pass 1", []float32{cq.signIP(signDot)}, []b32{row.IP1})
			sameBits64(t, name+": optimistic", optimistic, row.Optimistic.Bits)
			var dots []float64
			for p := range c.Bits - 1 {
				dots = append(dots, cq.planeDot(planes[p*RowBytes(c.Dim):(p+1)*RowBytes(c.Dim)]))
			}
			sameBits32(t, name+": pass 2", []float32{cq.fullIP(signDot, dots)}, []b32{row.IP2})
			sameBits64(t, name+": estimate", cq.Pass2(signDot, planes, RowBytes(c.Dim), c.Bits, &f), row.Estimate.Bits)
			ip, err := cq.deltaIP(delta, c.Bits)
			if err != nil {
				t.Fatal(err)
			}
			sameBits32(t, name+": delta dot", []float32{ip}, []b32{row.DeltaIP})
			dist, err := cq.Delta(delta, c.Bits, &f)
			if err != nil {
				t.Fatal(err)
			}
			sameBits64(t, name+": delta distance", dist, row.Delta.Bits)
		}
	}
}
