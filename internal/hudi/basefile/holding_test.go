package basefile_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"tidemark/internal/hudi/basefile"
	"tidemark/internal/hudi/basefile/basefiletest"
	"tidemark/internal/storage"
)

// Pages of ordered keys that can hold none of the values are left out; with keys in no order nothing is missed.
func TestReadHolding(t *testing.T) {
	t.Parallel()
	sorted := basefiletest.Keys(100)
	mixed := make([][]byte, 100)
	for i := range mixed {
		mixed[i] = sorted[i*37%100]
	}
	long := make([][]byte, 100) // bounds of long texts are cut
	for i := range long {
		long[i] = append(bytes.Repeat([]byte("ü"), 60), sorted[i]...)
	}
	nulls := slices.Clone(sorted)
	for i := range 20 {
		nulls[i] = nil
	}
	for _, tc := range []struct {
		name   string
		keys   [][]byte
		ask    []string
		want   []int64 // positions that hold a value
		most   int     // rows handed on at most
		forget bool
	}{
		{"one of many pages", sorted, []string{"k042"}, []int64{42}, 10, false},
		{"two", sorted, []string{"k000", "k099"}, []int64{0, 99}, 20, false},
		{"between pages", sorted, []string{"k0095"}, nil, 0, false},
		{"outside", sorted, []string{"", "z"}, nil, 0, false},
		{"none", sorted, nil, nil, 0, false},
		{"no order", mixed, []string{"k042"}, []int64{66}, 100, false},
		{"cut bounds", long, []string{string(long[7])}, []int64{7}, 100, false},
		{"null pages", nulls, []string{"k005", "k030"}, []int64{30}, 10, false},
		{"no index", sorted, []string{"k042"}, []int64{42}, 100, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f, err := basefile.Open(t.Context(), storage.BytesSource(basefiletest.Write(t, basefiletest.Config{PageRows: 10, GroupRows: 50},
				basefiletest.Column{Name: "k", Kind: basefile.String, Values: tc.keys})))
			if err != nil {
				t.Fatal(err)
			}
			if tc.forget {
				f.ForgetIndexes()
			}
			var got []int64
			rows := 0
			err = f.ReadHolding(t.Context(), "k", tc.ask, func(r basefile.Row) error {
				rows++
				if !bytes.Equal(r.Values[0], tc.keys[r.Position]) {
					return fmt.Errorf("row %d: %q", r.Position, r.Values[0])
				}
				if slices.Contains(tc.ask, string(r.Values[0])) && r.Values[0] != nil {
					got = append(got, r.Position)
				}
				return nil
			})
			if err != nil || !slices.Equal(got, tc.want) || rows > tc.most {
				t.Errorf("positions %v of %d rows: %v, want %v of at most %d", got, rows, err, tc.want, tc.most)
			}
		})
	}
}
