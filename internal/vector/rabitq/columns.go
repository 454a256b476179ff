package rabitq

import "tidemark/internal/vector/kernel"

// FactorColumns are the factors of a block's rows, a column for each, so that a scan reads only those it needs. All have a place for each
// row. The zero value has none.
type FactorColumns struct {
	// One number for each row, of the units that Factors has.
	FAdd1, FRescale1, Err1, ResidualNorm, VectorNorm []float32
	// Full are FAddEx and FRescaleEx, which only the rows need that the bound does not end.
	Full [][2]float32
}

// NewFactorColumns returns columns without rows, with room for n.
func NewFactorColumns(n int) FactorColumns {
	all := make([]float32, 5*n)
	next := func() []float32 {
		column := all[:0:n]
		all = all[n:]
		return column
	}
	return FactorColumns{next(), next(), next(), next(), next(), make([][2]float32, 0, n)}
}

// Len is how many rows there are.
func (c *FactorColumns) Len() int { return len(c.Full) }

// Append adds a row.
func (c *FactorColumns) Append(f Factors) {
	c.FAdd1, c.FRescale1, c.Err1 = append(c.FAdd1, f.FAdd1), append(c.FRescale1, f.FRescale1), append(c.Err1, f.Err1)
	c.ResidualNorm, c.VectorNorm = append(c.ResidualNorm, f.ResidualNorm), append(c.VectorNorm, f.VectorNorm)
	c.Full = append(c.Full, [2]float32{f.FAddEx, f.FRescaleEx})
}

// At returns the factors of row i.
func (c *FactorColumns) At(i int) Factors {
	f := c.Full[i]
	return Factors{FAdd1: c.FAdd1[i], FRescale1: c.FRescale1[i], Err1: c.Err1[i], FAddEx: f[0], FRescaleEx: f[1],
		ResidualNorm: c.ResidualNorm[i], VectorNorm: c.VectorNorm[i]}
}

// used returns the factors of row i that distances of a metric are made of: reading the others takes longer than the rest.
func (c *FactorColumns) used(m kernel.Metric, i int) Factors {
	full := c.Full[i]
	f := Factors{FRescale1: c.FRescale1[i], Err1: c.Err1[i], FAddEx: full[0], FRescaleEx: full[1]}
	switch m {
	case kernel.L2:
		f.ResidualNorm = c.ResidualNorm[i]
	case kernel.Dot:
		f.FAdd1 = c.FAdd1[i]
	default:
		f.FAdd1, f.VectorNorm = c.FAdd1[i], c.VectorNorm[i]
	}
	return f
}
