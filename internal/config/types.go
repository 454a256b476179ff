package config

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Secret is a text that is never printed: every way to make a text of it but Reveal gives its mask.
type Secret string

const mask = "***"

// String returns the mask; "" stays "".
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString returns the mask, too.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText returns the mask, too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue returns the mask, too.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// Size is a number of bytes. Its text is a whole number with a unit: B, KiB, MiB, GiB, kB, MB or GB; no unit means bytes.
type Size int64

var units = []struct {
	name string
	n    Size
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}

// String writes the size with the largest unit of powers of two that leaves a whole number.
func (s Size) String() string {
	for _, u := range units[:3] {
		if s >= u.n && s%u.n == 0 {
			return fmt.Sprintf("%d%s", s/u.n, u.name)
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText is String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseSize reads a size.
func ParseSize(text string) (Size, error) {
	digits, unit := strings.TrimSpace(text), Size(1)
	for _, u := range units {
		if rest, found := strings.CutSuffix(digits, u.name); found {
			digits, unit = strings.TrimSpace(rest), u.n
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/int64(unit) {
		return 0, fmt.Errorf("%q is no size: write a whole number of bytes, or one with a unit, as in 64MiB", text)
	}
	return Size(n) * unit, nil
}

// ParseZoneOffset reads an offset such as "+02:00" or "-09:30"; nil for "".
func ParseZoneOffset(text string) (*time.Duration, error) {
	if text == "" {
		return nil, nil
	}
	at, err := time.Parse("-07:00", text)
	if err != nil {
		return nil, fmt.Errorf("%q is no offset: write it as in \"+02:00\"", text)
	}
	_, seconds := at.Zone()
	d := time.Duration(seconds) * time.Second
	return &d, nil
}
