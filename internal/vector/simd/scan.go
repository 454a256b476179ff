package simd

import "encoding/binary"

// ScanRows is what the sums of a scan are, in the plain layout: sums[i] is Σ_b tables[b][row i's byte b] over the first
// len(tables) bytes of each row. Rows are stride bytes apart, a multiple of 8. No sum exceeds 65,535.
func ScanRows(sums []uint16, rows []byte, stride int, tables [][256]uint16) {
	for i := range sums {
		row, t := rows[i*stride:(i+1)*stride], tables
		s0, s1 := uint16(0), uint16(0)
		for len(t) >= 8 && len(row) >= 8 {
			x, e := binary.LittleEndian.Uint64(row), (*[8][256]uint16)(t)
			s0 += e[0][byte(x)] + e[1][byte(x>>8)] + e[2][byte(x>>16)] + e[3][byte(x>>24)]
			s1 += e[4][byte(x>>32)] + e[5][byte(x>>40)] + e[6][byte(x>>48)] + e[7][byte(x>>56)]
			row, t = row[8:], t[8:]
		}
		for b := range t {
			s0 += t[b][row[b]]
		}
		sums[i] = s0 + s1
	}
}

// Group is how many codes an interleaved group holds.
const Group = 32

// Interleave turns rows of stride bytes, a multiple of 8, into groups of 32 codes: byte b of code i of group g becomes
// byte 32·(g·stride+b) + i. It appends whole groups to dst; places without a row are 0.
func Interleave(dst, rows []byte, stride int) []byte {
	n := len(rows) / stride
	at := len(dst)
	groups := (n + Group - 1) / Group
	dst = append(dst, make([]byte, groups*Group*stride)...)
	out := dst[at:]
	for g := range groups {
		part, to := rows[g*Group*stride:min(n, (g+1)*Group)*stride], out[g*Group*stride:(g+1)*Group*stride]
		if fast && len(part) == Group*stride {
			interleaveAVX2(&to[0], &part[0], stride, stride/8)
			continue
		}
		for i := 0; i*stride < len(part); i++ {
			for b, x := range part[i*stride : (i+1)*stride] {
				to[Group*b+i] = x
			}
		}
	}
	return dst
}

// ScanGroups is ScanRows for interleaved codes of stride bytes, of which the first width count. nibbles holds 16 entries
// for the low half of each byte, then 16 for the high half. sums has a place for every code of every group.
func ScanGroups(sums []uint16, groups []byte, stride int, nibbles []byte, width int) {
	count := len(sums) / Group
	if count == 0 || width == 0 {
		return
	}
	_, _ = groups[count*Group*stride-1], nibbles[32*width-1]
	if fast {
		nibblesAVX2(&sums[0], &groups[0], &nibbles[0], width, Group*(stride-width), count)
		return
	}
	clear(sums)
	for g := range count {
		out, codes := sums[g*Group:(g+1)*Group], groups[g*Group*stride:]
		for b := range width {
			t := (*[32]byte)(nibbles[32*b:])
			for i, x := range codes[Group*b : Group*(b+1)] {
				out[i] += uint16(t[x&15]) + uint16(t[16+x>>4])
			}
		}
	}
}

// ByteTable sets table[x] to the sum of w[bit] over the set bits of x, float64, bits ascending.
func ByteTable(table *[256]float64, w *[8]float32) {
	if fast {
		byteTableAVX2(table, w)
		return
	}
	table[0] = 0
	for bit, x := range w {
		wide := float64(x)
		high := 1 << bit
		for low, s := range table[:high] {
			table[high+low] = s + wide
		}
	}
}
