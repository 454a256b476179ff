package table_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/hudi/logfile"
	"tidemark/internal/hudi/table"
)

// positioned is a data block whose record positions refer to the base file of an instant.
func positioned(n, base int, list []uint16, rows ...val) []byte {
	b := binary.LittleEndian.AppendUint64(nil, 1)
	for _, x := range []uint32{0, 12346, 1} {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, 0), uint16(len(list)-1))
	b = binary.LittleEndian.AppendUint32(b, 16)
	for _, p := range list {
		b = binary.LittleEndian.AppendUint16(b, p)
	}
	var recs [][]byte
	for _, r := range rows {
		recs = append(recs, avro(n, r))
	}
	return logfile.AppendBlock(nil, logfile.TypeAvro, header(n, logfile.HeaderEntry{Key: logfile.RecordPositions, Value: base64.StdEncoding.EncodeToString(b)},
		logfile.HeaderEntry{Key: logfile.PositionsBaseInstant, Value: at(base)}), logfile.AvroContent(nil, recs))
}

// Of an append the candidates alone are read, in both versions, whatever the block says about positions.
func TestReadAppended(t *testing.T) {
	t.Parallel()
	a, b, c := val{key: "a", ts: 1, v: 1}, val{key: "b", ts: 1, v: 2}, val{key: "c", ts: 1, v: 3}
	b2, d := val{key: "b", ts: 2, v: 20}, val{key: "d", ts: 2, v: 4}
	late := val{key: "b", ts: 0, v: 99}
	for _, tc := range []struct {
		name  string
		first []byte // log before, if any
		next  []byte
		want  string
	}{
		{"positions", nil, positioned(5, 1, []uint16{1}, b2), "−b=2@1 +b=20@-1"},
		{"wrong positions", nil, positioned(5, 1, []uint16{2}, b2), "−b=2@1 +b=20@-1"},
		{"positions behind the last row", nil, positioned(5, 1, []uint16{9}, b2), "−b=2@1 +b=20@-1"},
		{"positions of another base file", nil, positioned(5, 0, []uint16{0}, b2), "−b=2@1 +b=20@-1"},
		{"too few positions", nil, positioned(5, 1, []uint16{1}, b2, d), "−b=2@1 +b=20@-1 +d=4@-1"},
		{"keys only", nil, data(5, b2, d), "−b=2@1 +b=20@-1 +d=4@-1"},
		{"a late record leaves the base row, in a log now", nil, data(5, late), "−b=2@1 +b=2@-1"},
		{"delete", nil, deletes(5, del("c"), del("x")), "−c=3@2"},
		{"again", data(3, b2, d), data(5, val{key: "d", ts: 3, v: 5}), "−d=4@-1 +d=5@-1"},
		{"log compaction", data(3, b2), logfile.AppendBlock(nil, logfile.TypeAvro, header(5, logfile.HeaderEntry{Key: logfile.CompactedBlockTimes, Value: at(3)}),
			logfile.AvroContent(nil, [][]byte{avro(5, b2)})), "−b=20@-1 +b=20@-1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.commit("deltacommit", 1, 2, nil, w.base(1, a, b, c))
			in := map[string]bool{at(1): true}
			if tc.first != nil {
				w.commit("deltacommit", 3, 4, nil, w.log(3, tc.first))
				in[at(3)] = true
			}
			w.commit("deltacommit", 5, 6, nil, w.log(5, tc.next))
			tab := open(t, w.st)
			files, err := tab.Files(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var s [2]table.Slice
			for i, cut := range []table.Cut{{In: table.Only(in)}, {}} {
				if s[i], _, err = files.Slice(table.Group{Partition: "p", FileID: "g"}, cut); err != nil {
					t.Fatal(err)
				}
			}
			if !table.Appended(s[0], s[1]) {
				t.Fatal("not appended")
			}
			var got []string
			err = tab.ReadAppended(t.Context(), s[0], s[1], table.Columns{Vectors: []string{"v"}}, func(after bool, r table.Row) error {
				got = append(got, fmt.Sprintf("%s%s=%v@%d", map[bool]string{false: "−", true: "+"}[after], r.Key, float(r.Vectors[0]), r.Position))
				return nil
			})
			slices.SortFunc(got, func(x, y string) int {
				return strings.Compare(strings.TrimLeft(x, "−+"), strings.TrimLeft(y, "−+"))
			})
			want := strings.Fields(tc.want)
			slices.SortFunc(want, func(x, y string) int {
				return strings.Compare(strings.TrimLeft(x, "−+"), strings.TrimLeft(y, "−+"))
			})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("got %v %v, want %v", got, err, want)
			}
		})
	}
}

func float(raw []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(raw)) }
