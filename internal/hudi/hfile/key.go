package hfile

import (
	"fmt"

	"tidemark/internal/storage"
)

// EncodeKey returns the stored form of a logical key: each byte is one character U+0000..U+00FF, and the text is
// stored as UTF-8, so a byte of 0x80 and above takes two bytes. Order is kept. The result is the caller's.
func EncodeKey(logical []byte) []byte {
	n := len(logical)
	for _, c := range logical {
		n += int(c >> 7)
	}
	return AppendKey(make([]byte, 0, n), logical)
}

// AppendKey appends the stored form of a logical key to dst.
func AppendKey(dst, logical []byte) []byte {
	for _, c := range logical {
		if c < 0x80 {
			dst = append(dst, c)
		} else {
			dst = append(dst, 0xc0|c>>6, 0x80|c&0x3f)
		}
	}
	return dst
}

// DecodeKey is the inverse of EncodeKey. A stored key that is not UTF-8 of characters up to U+00FF is
// storage.ErrCorrupt. The result is the caller's.
func DecodeKey(stored []byte) ([]byte, error) {
	out := make([]byte, 0, len(stored))
	for i := 0; i < len(stored); i++ {
		c := stored[i]
		if c < 0x80 {
			out = append(out, c)
			continue
		}
		if c&0xfe != 0xc2 || i+1 == len(stored) || stored[i+1]&0xc0 != 0x80 {
			return nil, fmt.Errorf("decode key %x: byte %d is no Latin-1 character in UTF-8: %w", stored, i, storage.ErrCorrupt)
		}
		i++
		out = append(out, c<<6|stored[i]&0x3f)
	}
	return out, nil
}
