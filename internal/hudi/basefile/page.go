package basefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"tidemark/internal/storage"

	"github.com/parquet-go/parquet-go/format"
)

// page is one decoded data page of a flat column. Its values may alias the bytes it was decoded from.
type page struct {
	rows    int
	present presence
	values  *values  // nil: those of the chunk's dictionary, kept beside the page
	of      int      // values of that dictionary
	buf     []byte   // what the page was unpacked into; nil if it was stored as it is
	users   int      // cursors that are at the page: buf is used again when none is
	ids     []uint32 // dictionary indexes, one per value that is not null; nil = values lie in the page
}

// at returns the value of a row of the page, nil if it is null.
func (p *page) at(row int) []byte {
	i, ok := p.present.place(row)
	if !ok {
		return nil
	}
	if p.ids != nil {
		i = int(p.ids[i])
	}
	return p.values.at(i)
}

// pageHeader decodes the header at the front of b. errThriftShort says that more bytes may help.
func pageHeader(b []byte) (*format.PageHeader, int, error) {
	h := new(format.PageHeader)
	n, err := unmarshal(b, h)
	if err != nil {
		return nil, 0, err
	}
	if h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 {
		return nil, 0, fmt.Errorf("page of %d bytes, %d unpacked: %w", h.CompressedPageSize, h.UncompressedPageSize, storage.ErrCorrupt)
	}
	return h, n, nil
}

// dataRows returns the number of rows of a data page, which in a flat column is its number of values; ok is false for
// other pages.
func dataRows(h *format.PageHeader) (n int64, ok bool) {
	switch {
	case h.Type == format.DataPage && h.DataPageHeader.Valid:
		return int64(h.DataPageHeader.V.NumValues), true
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		return int64(h.DataPageHeaderV2.V.NumValues), true
	}
	return 0, false
}

// checkCRC compares the page's checksum if its writer made one.
func checkCRC(h *format.PageHeader, body []byte) error {
	if h.CRC == 0 {
		return nil
	}
	if got := crc32.ChecksumIEEE(body); got != uint32(h.CRC) {
		return fmt.Errorf("page checksum %08x, want %08x: %w", got, uint32(h.CRC), storage.ErrCorrupt)
	}
	return nil
}

// decodeDictionary decodes a dictionary page.
func decodeDictionary(c *column, codec format.CompressionCodec, h *format.PageHeader, body []byte) (*values, error) {
	if !h.DictionaryPageHeader.Valid || h.DictionaryPageHeader.V.NumValues < 0 {
		return nil, fmt.Errorf("dictionary page without its header: %w", storage.ErrCorrupt)
	}
	if err := checkCRC(h, body); err != nil {
		return nil, err
	}
	data, err := decompress(codec, body, int(h.UncompressedPageSize), nil)
	if err != nil {
		return nil, err
	}
	d := h.DictionaryPageHeader.V
	//lint:ignore SA1019 old writers store this name, and readers must know it
	if d.Encoding != format.Plain && d.Encoding != format.PlainDictionary {
		return nil, fmt.Errorf("dictionary in encoding %v: %w", d.Encoding, storage.ErrUnsupported)
	}
	return decodeValues(c, format.Plain, int(d.NumValues), data)
}

// decodePage decodes a data page with the chunk's dictionary (nil = none). buf is memory to unpack into; the page has it then.
func decodePage(c *column, codec format.CompressionCodec, h *format.PageHeader, body []byte, dict *values, buf []byte) (*page, error) {
	if err := checkCRC(h, body); err != nil {
		return nil, err
	}
	if h.Type == format.DataPageV2 {
		return decodeV2(c, codec, h, body, dict, buf)
	}
	v1 := h.DataPageHeader.V
	data, err := decompress(codec, body, int(h.UncompressedPageSize), buf)
	if err != nil {
		return nil, err
	}
	p := &page{rows: int(v1.NumValues)}
	if codec != format.Uncompressed {
		p.buf = data
	}
	if c.optional {
		if v1.DefinitionLevelEncoding != format.RLE {
			return nil, fmt.Errorf("definition levels in encoding %v: %w", v1.DefinitionLevelEncoding, storage.ErrUnsupported)
		}
		if len(data) < 4 {
			return nil, fmt.Errorf("page without definition levels: %w", storage.ErrCorrupt)
		}
		n := int64(binary.LittleEndian.Uint32(data))
		if n > int64(len(data)-4) {
			return nil, fmt.Errorf("definition levels leave the page: %w", storage.ErrCorrupt)
		}
		if p.present, err = decodePresence(data[4:4+n], p.rows); err != nil {
			return nil, err
		}
		data = data[4+n:]
	}
	return p, p.decode(c, v1.Encoding, data, dict)
}

func decodeV2(c *column, codec format.CompressionCodec, h *format.PageHeader, body []byte, dict *values, buf []byte) (*page, error) {
	v2 := h.DataPageHeaderV2.V
	rep, def := int64(v2.RepetitionLevelsByteLength), int64(v2.DefinitionLevelsByteLength)
	if rep < 0 || def < 0 || rep+def > int64(len(body)) || rep+def > int64(h.UncompressedPageSize) || v2.NumRows != v2.NumValues {
		return nil, fmt.Errorf("page of %d rows, %d values, %d+%d bytes of levels: %w", v2.NumRows, v2.NumValues, rep, def, storage.ErrCorrupt)
	}
	p := &page{rows: int(v2.NumValues)}
	data := body[rep+def:]
	var err error
	if !v2.IsCompressed.Valid || v2.IsCompressed.V {
		if data, err = decompress(codec, data, int(int64(h.UncompressedPageSize)-rep-def), buf); err != nil {
			return nil, err
		}
		if codec != format.Uncompressed {
			p.buf = data
		}
	}
	if c.optional {
		if p.present, err = decodePresence(body[rep:rep+def], p.rows); err != nil {
			return nil, err
		}
	}
	return p, p.decode(c, v2.Encoding, data, dict)
}

// decode reads the values behind the levels.
func (p *page) decode(c *column, enc format.Encoding, data []byte, dict *values) error {
	n := p.present.values(p.rows)
	var err error
	//lint:ignore SA1019 old writers store this name, and readers must know it
	if enc != format.RLEDictionary && enc != format.PlainDictionary {
		p.values, err = decodeValues(c, enc, n, data)
		return err
	}
	if dict == nil {
		if n == 0 {
			p.values = &values{}
			return nil
		}
		return fmt.Errorf("page refers to a dictionary that the chunk does not have: %w", storage.ErrCorrupt)
	}
	p.values, p.ids = dict, make([]uint32, n)
	if n == 0 {
		return nil
	}
	if len(data) == 0 || data[0] > 32 {
		return fmt.Errorf("dictionary indexes without a bit width: %w", storage.ErrCorrupt)
	}
	if err := decodeHybrid(data[1:], int(data[0]), p.ids); err != nil {
		return err
	}
	for _, id := range p.ids {
		if int64(id) >= int64(dict.n) {
			return fmt.Errorf("dictionary index %d of %d: %w", id, dict.n, storage.ErrCorrupt)
		}
	}
	return nil
}

// decodeLevels reads n definition levels of 0 or 1.
func decodeLevels(b []byte, n int) ([]byte, error) {
	out := make([]byte, n)
	if err := decodeHybrid(b, 1, out); err != nil {
		return nil, fmt.Errorf("definition levels: %w", err)
	}
	for _, d := range out {
		if d > 1 {
			return nil, fmt.Errorf("definition level %d: %w", d, storage.ErrCorrupt)
		}
	}
	return out, nil
}

// decodeHybrid fills out from runs of Parquet's RLE / bit-packing hybrid, width bits a value: at most 8 bits for bytes.
func decodeHybrid[T byte | uint32](b []byte, width int, out []T) error {
	size := (width + 7) / 8
	for len(out) > 0 {
		head, n := binary.Uvarint(b)
		if n <= 0 {
			return errShortRun
		}
		b = b[n:]
		if head&1 == 0 { // one value, repeated
			if len(b) < size {
				return errShortRun
			}
			var v uint32
			for i := size - 1; i >= 0; i-- {
				v = v<<8 | uint32(b[i])
			}
			b = b[size:]
			count := head >> 1
			if count == 0 || count > uint64(len(out)) {
				return fmt.Errorf("run of %d where %d are left: %w", count, len(out), storage.ErrCorrupt)
			}
			for i := range out[:count] {
				out[i] = T(v)
			}
			out = out[count:]
			continue
		}
		groups := head >> 1 // groups of 8 values; the last may be padded
		if groups == 0 || groups > uint64(len(out)+7)/8 {
			return fmt.Errorf("packed run of 8 × %d where %d are left: %w", groups, len(out), storage.ErrCorrupt)
		}
		count := min(int(groups)*8, len(out))
		packed := b[:min(len(b), int(groups)*width)]
		if len(packed)*8 < count*width { // some writers leave out the padding's bytes
			return errShortRun
		}
		unpack(packed, width, out[:count])
		out, b = out[count:], b[len(packed):]
	}
	return nil
}

var errShortRun = fmt.Errorf("runs end early: %w", storage.ErrCorrupt)

// unpack reads width-bit integers, least significant bits first. b holds enough bits.
func unpack[T byte | uint32](b []byte, width int, out []T) {
	var acc uint64
	bits, mask := 0, uint64(1)<<width-1
	for i := range out {
		for bits < width {
			acc |= uint64(b[0]) << bits
			b, bits = b[1:], bits+8
		}
		out[i] = T(acc & mask)
		acc >>= width
		bits -= width
	}
}

// isShort says whether more bytes may make a structure whole.
func isShort(err error) bool { return errors.Is(err, errThriftShort) }
