package logfile

import (
	"cmp"
	"strconv"
	"strings"
)

// Name is the name of an inline log file, `.<fileId>_<instant>.log.<version>[_<token>][.cdc]`.
type Name struct {
	FileID string
	// Instant is the requested time of the deltacommit that wrote the file (table version 8 and later), or the base
	// instant of its slice (version 6, also after an upgrade).
	Instant string
	Version int
	Token   string // "" if the name has none, else three numbers joined by "-"
	CDC     bool   // change log; no part of a file slice
}

// ParseName parses the last element of a path. It reports false for anything that is not an inline log name.
func ParseName(base string) (Name, bool) {
	var n Name
	rest, ok := strings.CutPrefix(base, ".")
	if !ok {
		return n, false
	}
	rest, n.CDC = strings.CutSuffix(rest, ".cdc")
	id, rest, ok := strings.Cut(rest, "_")
	if !ok || id == "" || strings.Contains(id, ".") {
		return n, false
	}
	n.FileID = id
	if n.Instant, rest, ok = strings.Cut(rest, ".log."); !ok || n.Instant == "" || strings.Contains(n.Instant, ".") {
		return n, false
	}
	version, token, hasToken := strings.Cut(rest, "_")
	v, ok := number(version)
	if !ok || hasToken && !isToken(token) {
		return n, false
	}
	n.Version, n.Token = v, token
	return n, true
}

// isToken says whether s is a write token: three decimal numbers joined by "-".
func isToken(s string) bool {
	parts := strings.Split(s, "-")
	for _, p := range parts {
		if _, ok := number(p); !ok {
			return false
		}
	}
	return len(parts) == 3
}

// number parses plain decimal digits that fit a Java int.
func number(s string) (int, bool) {
	if s == "" || len(s) > 10 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	v, err := strconv.ParseInt(s, 10, 32)
	return int(v), err == nil
}

// String returns the file name.
func (n Name) String() string {
	s := "." + n.FileID + "_" + n.Instant + ".log." + strconv.Itoa(n.Version)
	if n.Token != "" {
		s += "_" + n.Token
	}
	if n.CDC {
		s += ".cdc"
	}
	return s
}

// Compare orders the log files of one slice as they are merged: instant in the name, version, write token (none first),
// data before change log. Real Hudi merges by the requested time in the name, not by completion time.
func Compare(a, b Name) int {
	return cmp.Or(
		cmp.Compare(a.Instant, b.Instant),
		cmp.Compare(a.Version, b.Version),
		cmp.Compare(a.Token, b.Token),
		cmp.Compare(flag(a.CDC), flag(b.CDC)),
	)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
