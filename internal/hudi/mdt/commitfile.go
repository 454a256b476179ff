package mdt

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"

	"tidemark/internal/hudi/avrox"
	"tidemark/internal/storage"
	"tidemark/timeline"
)

// commitSchema is the Avro schema of an MDT commit as Hudi 1.2.0 writes it.
//
//go:embed commit_schema.json
var commitSchema string

const syncLength = 16

// CommitFile returns the bytes of the completed deltacommit (docs/format/commit.md, The commit file). Write stats are an empty map and never null; the extra
// metadata has keys of ours only and never "schema", which readers of other partitions would take for theirs. The sync marker is a
// checksum of the id and of what lies between the two markers, so equal arguments give equal bytes and CheckCommitFile finds a changed one.
func CommitFile(id string, epoch int64, files []DataFile, covered []CoveredInstant) ([]byte, error) {
	var paths, sources []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	named := map[string]bool{}
	for _, c := range covered {
		if !named[c.Requested] {
			named[c.Requested] = true
			sources = append(sources, c.Requested)
		}
	}
	b, err := avrox.WriteContainer(commitSchema, map[string]any{
		"partitionToWriteStats": map[string]any{},
		"compacted":             false,
		"extraMetadata": map[string]any{
			"tidemark.files":   strings.Join(paths, ","),
			"tidemark.sources": strings.Join(sources, ","),
			"tidemark.epoch":   strconv.FormatInt(epoch, 10),
		},
		"version":       1,
		"operationType": "UPSERT_PREPPED",
	}, [syncLength]byte{})
	if err != nil {
		return nil, fmt.Errorf("encode commit file %s: %w", id, err)
	}
	head := len(commitHeader())
	sum := commitSum(id, b[head+syncLength:len(b)-syncLength])
	copy(b[head:], sum)
	copy(b[len(b)-syncLength:], sum)
	return b, nil
}

// commitHeader is what every commit file of ours begins with, up to the first sync marker.
var commitHeader = sync.OnceValue(func() []byte {
	marker := [syncLength]byte([]byte("where it belongs"))
	b, err := avrox.WriteContainer(commitSchema, map[string]any{"partitionToWriteStats": map[string]any{}, "compacted": false,
		"extraMetadata": map[string]any{}, "version": 1, "operationType": "UPSERT_PREPPED"}, marker)
	if err != nil {
		panic("the embedded commit schema cannot be written: " + err.Error())
	}
	return b[:bytes.Index(b, marker[:])]
})

func commitSum(id string, block []byte) []byte {
	h := sha256.New()
	h.Write([]byte("tidemark deltacommit " + id + "\n"))
	h.Write(block)
	return h.Sum(nil)[:syncLength]
}

// CheckCommitFile says whether b is a commit file of ours for an id, every byte of it: ErrCorrupt if not.
func CheckCommitFile(id string, b []byte) error {
	head := commitHeader()
	if len(b) < len(head)+2*syncLength || !bytes.HasPrefix(b, head) {
		return fmt.Errorf("it does not begin as one: %w", storage.ErrCorrupt)
	}
	marker, block, end := b[len(head):len(head)+syncLength], b[len(head)+syncLength:len(b)-syncLength], b[len(b)-syncLength:]
	if sum := commitSum(id, block); !bytes.Equal(sum, marker) || !bytes.Equal(sum, end) {
		return fmt.Errorf("checksum differs: %w", storage.ErrCorrupt)
	}
	return nil
}

// LeastCommitFile is a size that no commit file of ours is below: a listing tells by it that one was emptied or cut short.
func LeastCommitFile() int64 { return int64(len(commitHeader()) + 2*syncLength) }

// CheckCommitFiles reads the commit files of ours on the active timeline of the metadata table from the one on that built the index's active
// generation: all that an index is made of. Older ones, such as those of an index that was dropped, are not looked at: nothing depends on
// them. Ours are those that completed a millisecond after they were requested, which no clock gives (docs/format/commit.md, Ids without a clock), and all that the state names.
// A damaged one is ErrCorrupt, naming it. One that is not there may be archived, and is for the caller to look for.
func CheckCommitFiles(ctx context.Context, p Place, st *State, index string) error {
	needed := map[string]bool{}
	for _, f := range st.Live(index) {
		needed[f.ID] = true
	}
	built := ""
	if x := st.Indexes[index]; x != nil {
		g, _ := x.Active()
		built = g.Built
	}
	ours := func(id, completion string) bool {
		next, err := timeline.AddMillis(id, 1)
		return needed[id] || id >= built && err == nil && next == completion
	}
	infos, err := p.Store.List(ctx, p.TimelineDir())
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check commit files: %w", err)
	}
	for _, i := range infos {
		id, completion, ok := strings.Cut(strings.TrimSuffix(path.Base(i.Path), ".deltacommit"), "_")
		if !ok || !ours(id, completion) || !strings.HasSuffix(i.Path, ".deltacommit") {
			continue
		}
		b, _, err := p.Store.ReadFile(ctx, i.Path)
		if errors.Is(err, storage.ErrNotFound) {
			continue // archived meanwhile
		}
		if err != nil {
			return fmt.Errorf("check commit files: %w", err)
		}
		if err := CheckCommitFile(id, b); err != nil {
			return DamagedCommitFile(i.Path, index, err)
		}
	}
	return nil
}

// DamagedCommitFile is the error of a commit file of ours that an index needs and that is not what it was, with the next step.
func DamagedCommitFile(file, index string, err error) error {
	return &storage.Error{Op: "check commit file", Path: file, Err: err, Hint: CommitFileHint(index)}
}

// CommitFileHint is the next step where a commit file of ours is damaged.
func CommitFileHint(index string) string {
	return "our own readers do not need what it says, Hudi's readers may fail on it: restore it from a copy, or drop index " + index + " and create it again"
}
