package simd

import "encoding/binary"

// ScanRows is what the sums of a scan are, in the plain layout: sums[i] is Σ tables[b/8][256·(b%8) + row i's byte b]. Rows
// have 8·len(tables) bytes. No sum exceeds 65,535.
func ScanRows(sums []uint16, rows []byte, tables [][2048]uint16) {
	stride := 8 * len(tables)
	for i := range sums {
		row := rows[i*stride : (i+1)*stride]
		s0, s1 := uint32(0), uint32(0)
		for k := range tables {
			x, e := binary.LittleEndian.Uint64(row[8*k:8*k+8]), &tables[k]
			s0 += uint32(e[int(byte(x))]) + uint32(e[int(byte(x>>8))+0x100])
			s1 += uint32(e[int(byte(x>>16))+0x200]) + uint32(e[int(byte(x>>24))+0x300])
			s0 += uint32(e[int(byte(x>>32))+0x400]) + uint32(e[int(byte(x>>40))+0x500])
			s1 += uint32(e[int(byte(x>>48))+0x600]) + uint32(e[int(byte(x>>56))+0x700])
		}
		sums[i] = uint16(s0 + s1)
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
