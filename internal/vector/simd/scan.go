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

// MaxPlanes is how many planes of a code Planes takes.
const MaxPlanes = 4

// Planes sums w over the set bits of the planes of some codes: per byte, then over the bytes, bits and bytes ascending. Plane 0 of code c is row c of first,
// plane p row c·(planes−1)+p−1 of rest; rows have stride bytes, a multiple of 8. sums[i] takes those of code codes[i]; only as many as there are planes, 1 to MaxPlanes,
// count. w has a whole number of bytes' weights, no more than a row. It may be called only if Fast.
func Planes(sums [][MaxPlanes]float64, first, rest []byte, codes []int32, stride, planes int, w []float64) {
	bytes := len(w) / 8
	_ = first[:stride][bytes-1]
	var at [2 * MaxPlanes]*byte
	place := func(to *[MaxPlanes]*byte, code int) {
		to[0] = &first[code*stride : (code+1)*stride][0]
		more := rest[code*(planes-1)*stride : (code+1)*(planes-1)*stride]
		for p := 1; p < MaxPlanes; p++ {
			if to[p] = to[0]; p < planes {
				to[p] = &more[(p-1)*stride]
			}
		}
	}
	i := 0
	if wide {
		for ; i+2 <= len(codes); i += 2 {
			place((*[MaxPlanes]*byte)(at[:]), int(codes[i]))
			place((*[MaxPlanes]*byte)(at[MaxPlanes:]), int(codes[i+1]))
			planesAVX512((*[2][MaxPlanes]float64)(sums[i:]), &at, &w[0], bytes)
		}
	}
	for ; i < len(codes); i++ {
		place((*[MaxPlanes]*byte)(at[:]), int(codes[i]))
		planesAVX2(&sums[i], (*[MaxPlanes]*byte)(at[:]), &w[0], bytes)
	}
}

// Touch asks for the memory of some rows of stride bytes, of each the first and the last byte, and does not wait for it.
func Touch(rows []byte, stride int, codes []int32) {
	if !fast || stride == 0 || len(codes) == 0 {
		return
	}
	touchAVX2(&rows[0], stride, &codes[0], len(codes))
}

// TouchPairs is Touch for pairs of numbers.
func TouchPairs(rows [][2]float32, codes []int32) {
	if !fast || len(codes) == 0 {
		return
	}
	touchPairsAVX2(&rows[0], &codes[0], len(codes))
}

// Entries sets table[16·h+x] to min(255, ⌊(s − lows[h])·inverse + ½⌋), s being the sum of w[4·h+bit] over the set bits of x, ascending. No s is below
// lows[h], and none is NaN. w has four weights for each of lows.
func Entries(table []byte, w, lows []float64, inverse float64) {
	n := len(lows)
	if n == 0 {
		return
	}
	_, _ = table[16*n-1], w[4*n-1]
	if fast {
		entriesAVX2(&table[0], &w[0], &lows[0], n, inverse)
		return
	}
	for h, low := range lows {
		var sums [16]float64
		for bit, x := range w[4*h : 4*h+4] {
			for i, s := range sums[:1<<bit] {
				sums[1<<bit+i] = s + x
			}
		}
		for i, s := range sums {
			table[16*h+i] = byte(min(255, float64((s-low)*inverse)+0.5))
		}
	}
}
