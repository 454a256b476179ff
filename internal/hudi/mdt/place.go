package mdt

import (
	"fmt"
	"path"
	"strings"

	"tidemark/internal/storage"
	"tidemark/internal/storage/mount"
	"tidemark/timeline"
)

// Place says where the state object and the metadata table that we write lie. Inside a table both are below its
// .hoodie directory, beside it both are below the directory at which another store is mounted; every path of ours is made from a Place.
type Place struct {
	Store    storage.Store // root = the table's base path
	StateDir string        // relative to the root, for example ".hoodie/.tidemark"
	MDTDir   string        // relative to the root, for example ".hoodie/metadata"
	// Table is the table's canonical base path where the index lies beside it: the state names it, and that of another table
	// is refused. "" inside a table, which may be copied or moved with its index.
	Table string
}

// Inside returns the Place inside a table (docs/format/state.md).
func Inside(st storage.Store) Place {
	return Place{Store: st, StateDir: ".hoodie/.tidemark", MDTDir: ".hoodie/metadata"}
}

// Beside returns the Place of the indexes of a table that is only read (design, decision 3). base is its canonical base path.
func Beside(st *mount.Store, base string) Place {
	return Place{Store: st, StateDir: mount.Dir, MDTDir: mount.Dir + "/metadata", Table: base}
}

// IsBeside says whether the index lies outside the table, in a metadata table of our own.
func (p Place) IsBeside() bool { return p.Table != "" }

// CheckWritable says whether an index can be kept at this place for a table of these properties: inside the table it needs the
// table's own metadata table. storage.ErrUnsupported with a hint where not.
func (p Place) CheckWritable(props *timeline.Properties) error {
	if p.IsBeside() {
		return props.CheckReadable()
	}
	return props.CheckWritable()
}

// StatePath is the path of the state object.
func (p Place) StatePath() string { return p.StateDir + "/state.json" }

// File is the path of a file that the state names relative to the MDT root.
func (p Place) File(rel string) string { return p.MDTDir + "/" + rel }

// TimelineDir is the directory of the MDT's active timeline (table version 8 and later).
func (p Place) TimelineDir() string { return p.MDTDir + "/.hoodie/timeline" }

// CommitPath is the path of the completed file of one of our deltacommits, the only timeline file it has.
func (p Place) CommitPath(id, completion string) string {
	return p.TimelineDir() + "/" + id + "_" + completion + ".deltacommit"
}

// PartitionDir is the directory of an index relative to the MDT root.
func PartitionDir(index string) string { return "vector_index_" + index }

// TokenPrefix starts the write token of every file of ours; the rest is "<epoch>-<n>".
const TokenPrefix = "7427-"

// FileID names a physical file group of an index as Hudi's file-group naming does.
func FileID(group int) string { return fmt.Sprintf("vector-index-%04d-0", group) }

// LogName is the file name of a log file of ours (docs/format/commit.md, Files of a commit).
func LogName(group int, id, token string) string {
	return "." + FileID(group) + "_" + id + ".log.1_" + token
}

// BaseName is the file name of a base file of ours (docs/format/commit.md, Files of a commit).
func BaseName(group int, id, token string) string {
	return FileID(group) + "_" + token + "_" + id + ".hfile"
}

// OwnName takes apart a file name that LogName or BaseName made. ok is false for any other name, in particular for
// files that others wrote.
func OwnName(name string) (id string, base, ok bool) {
	var head, token string
	if rest, log := strings.CutPrefix(name, "."); log {
		var found bool
		if head, token, found = strings.Cut(rest, ".log.1_"); !found {
			return "", false, false
		}
		if head, id, found = strings.Cut(head, "_"); !found {
			return "", false, false
		}
	} else {
		stem, found := strings.CutSuffix(name, ".hfile")
		parts := strings.Split(stem, "_")
		if !found || len(parts) != 3 {
			return "", false, false
		}
		head, token, id, base = parts[0], parts[1], parts[2], true
	}
	if !strings.HasPrefix(head, "vector-index-") || !strings.HasPrefix(token, TokenPrefix) || !digits(id) {
		return "", false, false
	}
	tail := strings.Split(token, "-")
	if len(tail) != 3 || !digits(tail[1]) || !digits(tail[2]) {
		return "", false, false
	}
	return id, base, true
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Group returns the physical file group in a path made from LogName or BaseName, -1 for any other.
func Group(rel string) int {
	var n int
	name := strings.TrimPrefix(path.Base(rel), ".")
	if _, err := fmt.Sscanf(name, "vector-index-%04d-0_", &n); err != nil {
		return -1
	}
	return n
}
