package rabitq

// FactorColumns are the factors of a block's rows, a column for each, so that a scan reads only those it needs. All have a place for each
// row. The zero value has none.
type FactorColumns struct {
	FAdd1, FRescale1, Err1, FAddEx, FRescaleEx, ResidualNorm, VectorNorm []float32
}

// NewFactorColumns returns columns without rows, with room for n.
func NewFactorColumns(n int) FactorColumns {
	all := make([]float32, 7*n)
	next := func() []float32 {
		column := all[:0:n]
		all = all[n:]
		return column
	}
	return FactorColumns{next(), next(), next(), next(), next(), next(), next()}
}

// Len is how many rows there are.
func (c *FactorColumns) Len() int { return len(c.FAdd1) }

// Append adds a row.
func (c *FactorColumns) Append(f Factors) {
	c.FAdd1, c.FRescale1, c.Err1 = append(c.FAdd1, f.FAdd1), append(c.FRescale1, f.FRescale1), append(c.Err1, f.Err1)
	c.FAddEx, c.FRescaleEx = append(c.FAddEx, f.FAddEx), append(c.FRescaleEx, f.FRescaleEx)
	c.ResidualNorm, c.VectorNorm = append(c.ResidualNorm, f.ResidualNorm), append(c.VectorNorm, f.VectorNorm)
}

// At returns the factors of row i.
func (c *FactorColumns) At(i int) Factors {
	return Factors{FAdd1: c.FAdd1[i], FRescale1: c.FRescale1[i], Err1: c.Err1[i], FAddEx: c.FAddEx[i], FRescaleEx: c.FRescaleEx[i],
		ResidualNorm: c.ResidualNorm[i], VectorNorm: c.VectorNorm[i]}
}
