package table

import (
	"regexp"
	"strings"

	"tidemark/internal/hudi/logfile"
)

// File is one base or log file of a file group.
type File struct {
	// Path is relative to the table's base path, Name its last part.
	Path, Name string
	// Instant is the one in the name. Of a log written before an upgrade from version 6 it is a base instant, and the blocks inside
	// say who wrote them.
	Instant string
	// Log tells a log file; Version and Token are parts of a log's name.
	Log     bool
	Version int
	Token   string
	// Size is that of the listing, 0 if the file is not there.
	Size int64
	// Present says that the listing has it. A file that is not there is known from commit or clean metadata.
	Present bool

	// expect is the size that the newest commit which wrote it notes, 0 if unknown.
	expect int64
	// writers are the requested times of the active writes whose stats say that they wrote it.
	writers []string
	// cleaned says that a clean of the active timeline took it.
	cleaned bool
}

var (
	// baseName is a Parquet base file: <fileId>_<writeToken>_<instant>.parquet. File ids hold no "_" and no ".".
	baseName = regexp.MustCompile(`^([^._]+)_(\d+-\d+-\d+)_([^_.]+)\.parquet$`)
	// nativeName is a native log of table version 10; it also ends like a base file, so it is tested first.
	nativeName = regexp.MustCompile(`^[^._]+_\d+-\d+-\d+_[^_]+_\d+\.(log|deletes|cdc)\.[^.]+$`)
)

// Reasons for which a listed file is not part of any group.
const (
	skipCDC     = "change data log"
	skipNative  = "native log of table version 10"
	skipHidden  = "hidden or temporary name"
	skipUnknown = "not a name of a base or log file"
)

// parseFile reads a data file's name. A name that is neither a base file nor a log gives a reason.
func parseFile(partition, name string) (Group, *File, string) {
	if n, ok := logfile.ParseName(name); ok {
		if n.CDC {
			return Group{}, nil, skipCDC
		}
		return Group{partition, n.FileID}, &File{Path: filePath(partition, name), Name: name, Instant: n.Instant, Log: true,
			Version: n.Version, Token: n.Token}, ""
	}
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".tmp") {
		return Group{}, nil, skipHidden
	}
	if nativeName.MatchString(name) {
		return Group{}, nil, skipNative
	}
	if m := baseName.FindStringSubmatch(name); m != nil {
		return Group{partition, m[1]}, &File{Path: filePath(partition, name), Name: name, Instant: m[3], Token: m[2]}, ""
	}
	return Group{}, nil, skipUnknown
}

// mergeOrder orders the logs of a slice: instant in the name, version, write token (docs/format/slices.md, "Which files
// belong together").
func mergeOrder(a, b *File) int {
	return logfile.Compare(logfile.Name{Instant: a.Instant, Version: a.Version, Token: a.Token},
		logfile.Name{Instant: b.Instant, Version: b.Version, Token: b.Token})
}
