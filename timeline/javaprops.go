package timeline

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
)

// parseProperties reads the syntax of java.util.Properties: Latin-1 bytes, \uXXXX and one-letter escapes, comments from #
// or !, a key ended by =, : or blank, and lines continued by a trailing backslash. The last of equal keys counts.
func parseProperties(b []byte) map[string]string {
	out := map[string]string{}
	lines := bytes.FieldsFunc(b, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := 0; i < len(lines); i++ {
		line := bytes.TrimLeft(lines[i], " \t\f")
		if len(line) == 0 || line[0] == '#' || line[0] == '!' {
			continue
		}
		for continued(line) && i+1 < len(lines) {
			i++
			line = append(line[:len(line)-1:len(line)-1], bytes.TrimLeft(lines[i], " \t\f")...)
		}
		key, value := splitProperty(line)
		out[unescape(key)] = unescape(value)
	}
	return out
}

// continued says whether the line ends in an odd number of backslashes.
func continued(line []byte) bool {
	return (len(line)-len(bytes.TrimRight(line, `\`)))%2 == 1
}

func splitProperty(line []byte) (key, value []byte) {
	end := 0
	for end < len(line) && !bytes.ContainsRune([]byte("=: \t\f"), rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	key, value = line[:end], bytes.TrimLeft(line[end:], " \t\f")
	if len(value) > 0 && (value[0] == '=' || value[0] == ':') {
		value = bytes.TrimLeft(value[1:], " \t\f")
	}
	return key, value
}

func unescape(b []byte) string {
	var out strings.Builder
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			out.WriteRune(rune(b[i])) // Latin-1: a byte is its code point
			continue
		}
		if i++; i == len(b) {
			break
		}
		switch b[i] {
		case 't':
			out.WriteByte('\t')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 'f':
			out.WriteByte('\f')
		case 'u':
			unit, n := unitAt(b[i+1:])
			i += n
			if low, m := lowSurrogate(b[i+1:]); utf16.IsSurrogate(unit) && m > 0 {
				unit = utf16.DecodeRune(unit, low)
				i += m
			}
			out.WriteRune(unit)
		default:
			out.WriteRune(rune(b[i]))
		}
	}
	return out.String()
}

func unitAt(b []byte) (rune, int) {
	if len(b) < 4 {
		return '\uFFFD', len(b)
	}
	v, err := strconv.ParseUint(string(b[:4]), 16, 16)
	if err != nil {
		return '\uFFFD', 4
	}
	return rune(v), 4
}

func lowSurrogate(b []byte) (rune, int) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, 0
	}
	unit, _ := unitAt(b[2:])
	if unit < 0xDC00 || unit > 0xDFFF {
		return 0, 0
	}
	return unit, 6
}
