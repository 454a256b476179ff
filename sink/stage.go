package sink

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"tidemark/internal/hudi/hfile"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/hudi/mdt"
	"tidemark/internal/storage"
)

// Record is one record of a batch. The sink does not look into it.
type Record struct {
	Key     []byte // logical key
	Payload []byte // encoded by Config.Schema
}

// FileRecords are the records of one file, ascending by key without doubles.
type FileRecords struct {
	Index   string
	Group   int  // physical file group
	Base    bool // a base file instead of a log file
	Records []Record
}

// staged is a file of a batch with its bytes.
type staged struct {
	mdt.DataFile
	content []byte
}

// encode makes the files of a batch: at most one log and one base file per index and file group. Deterministic.
func (s *Sink) encode(id string, epoch int64, batch []FileRecords) ([]staged, error) {
	var out []staged
	seen := map[string]bool{}
	for n, f := range batch {
		if f.Index == "" || f.Group < 0 || f.Group > 9999 {
			return nil, fmt.Errorf("encode file %d: index %q, file group %d: %w", n, f.Index, f.Group, storage.ErrRefused)
		}
		what := fmt.Sprintf("%s/%d/%t", f.Index, f.Group, f.Base)
		if seen[what] {
			return nil, fmt.Errorf("encode file %d: index %s has file group %d twice in one batch: %w", n, f.Index, f.Group, storage.ErrRefused)
		}
		seen[what] = true
		token := mdt.TokenPrefix + strconv.FormatInt(epoch, 10) + "-" + strconv.Itoa(n)
		name := mdt.LogName(f.Group, id, token)
		content, err := cells(s.cfg.Schema, f.Records)
		if err != nil {
			return nil, fmt.Errorf("encode file group %d of index %s: %w", f.Group, f.Index, err)
		}
		if f.Base {
			name = mdt.BaseName(f.Group, id, token)
		} else {
			content = logfile.AppendBlock(nil, logfile.TypeHFile, []logfile.HeaderEntry{
				{Key: logfile.SchemaKey, Value: s.cfg.Schema},
				{Key: logfile.InstantTime, Value: id},
			}, content)
		}
		sum := sha256.Sum256(content)
		out = append(out, staged{content: content, DataFile: mdt.DataFile{
			Path: mdt.PartitionDir(f.Index) + "/" + name, Index: f.Index, Group: f.Group, Base: f.Base, ID: id,
			Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:]),
		}})
	}
	return out, nil
}

// cells encodes records as one HFile.
func cells(schema string, records []Record) ([]byte, error) {
	w := hfile.NewWriter(hfile.Config{Schema: schema})
	var key []byte
	for _, r := range records {
		key = hfile.AppendKey(key[:0], r.Key)
		if err := w.Append(key, r.Payload); err != nil {
			return nil, err
		}
	}
	return w.Finish()
}
