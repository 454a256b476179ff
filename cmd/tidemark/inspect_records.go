package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tidemark/delta"
	"tidemark/internal/hudi/hfile"
	"tidemark/internal/hudi/logfile"
	"tidemark/internal/storage"
)

// cell is one record of an HFile for programs. Bytes are hex, as stored.
type cell struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	About string `json:"about,omitempty"` // the key in words, where it is one of an index
}

func (a *app) inspectHFile(ctx context.Context, f inspected) error {
	r, err := hfile.Open(ctx, f.source())
	if err != nil {
		return err
	}
	if !a.json {
		blocks, err := r.Blocks(ctx)
		if err != nil {
			return err
		}
		a.say("HFile, %s: %s in %s, %s", size(f.size), plural(int64(r.Entries()), "record"), plural(blocks, "block"), codec(r))
		if names := r.MetaNames(); len(names) > 0 {
			a.say("meta blocks: %s", strings.Join(names, ", "))
		}
	}
	return a.showCells(ctx, f, r, "")
}

func codec(r *hfile.Reader) string {
	if r.Compression() == hfile.None {
		return "not compressed"
	}
	return "gzip"
}

// showCells prints the records of an HFile: all of them for programs, counts by kind and the first few for people.
func (a *app) showCells(ctx context.Context, f inspected, r *hfile.Reader, indent string) error {
	var decode *delta.Decoder
	if strings.Contains(f.name, "vector-index") {
		var err error
		if decode, err = delta.NewDecoder(r.Schema()); err != nil {
			return err
		}
	}
	g := newGrid(1)
	families := map[string]int64{}
	var order []string
	shown, left := 0, int64(0)
	for c, err := range r.Scan(ctx, nil) {
		if err != nil {
			return err
		}
		var about, value string
		if decode != nil {
			about, value = inWords(decode, c)
		}
		if a.json {
			if err := a.object(cell{hex.EncodeToString(c.Key), hex.EncodeToString(c.Value), about}); err != nil {
				return err
			}
			continue
		}
		if kind, _, found := strings.Cut(about, " "); found || kind != "" {
			if families[kind] == 0 {
				order = append(order, kind)
			}
			families[kind]++
		}
		if f.limit > 0 && shown >= f.limit {
			left++
			continue
		}
		shown++
		if about == "" {
			about = strconv.Quote(string(c.Key))
		}
		g.add(about, size(int64(len(c.Value))), value)
	}
	if a.json {
		return nil
	}
	var counts []string
	for _, kind := range order {
		counts = append(counts, fmt.Sprintf("%s %s", count(families[kind]), kind))
	}
	if len(counts) > 0 {
		a.say("%s%s", indent, strings.Join(counts, " · "))
	}
	g.print(a, indent+"  ")
	if left > 0 {
		a.say("%s  … and %s; --limit 0 shows all", indent, plural(left, "more record"))
	}
	return nil
}

// inWords describes the key and the value of an index record. What cannot be decoded says why.
func inWords(d *delta.Decoder, c hfile.Cell) (key, value string) {
	logical, err := hfile.DecodeKey(c.Key)
	if err != nil {
		return "", err.Error()
	}
	k, err := delta.ParseKey(logical)
	if err != nil {
		return "", err.Error()
	}
	key = keyInWords(k)
	rec, err := d.Decode(c.Value)
	if err != nil {
		return key, err.Error()
	}
	return key, recordInWords(rec)
}

func keyInWords(k delta.Key) string {
	switch k.Family {
	case delta.FamilyPointer:
		return k.Family.String()
	case delta.FamilyManifest:
		return fmt.Sprintf("%s generation %d", k.Family, k.Generation)
	case delta.FamilyQuantizer, delta.FamilyCentroids:
		return fmt.Sprintf("%s generation %d chunk %d", k.Family, k.Generation, k.Chunk)
	case delta.FamilyStats:
		return fmt.Sprintf("%s generation %d cluster %d", k.Family, k.Generation, k.Cluster)
	case delta.FamilyMarker:
		return fmt.Sprintf("%s generation %d completed %s", k.Family, k.Generation, k.Instant)
	case delta.FamilyBlock:
		return fmt.Sprintf("%s generation %d cluster %d segment %d block %d", k.Family, k.Generation, k.Cluster, k.Segment, k.Block)
	}
	return fmt.Sprintf("%s generation %d cluster %d segment %d key %q", k.Family, k.Generation, k.Cluster, k.Segment, k.RecordKey)
}

func recordInWords(r delta.Record) string {
	switch v := r.(type) {
	case *delta.ActiveManifest:
		if v.ActiveGeneration == nil {
			return "no active generation"
		}
		return fmt.Sprintf("active generation %d", *v.ActiveGeneration)
	case *delta.Manifest:
		return fmt.Sprintf("%s, column %s, dimension %d, %s, %d bits, %d clusters", v.State, v.VectorColumn, v.Dim, v.Metric, v.BitsTotal, v.NumClusters)
	case *delta.Quantizer:
		return fmt.Sprintf("%s, seed %d", v.QuantizerType, v.RandomSeed)
	case *delta.Centroids:
		return plural(len(v.ClusterIDs)/4, "centroid")
	case *delta.PostingBlock:
		return plural(int(v.NumVectors), "posting")
	case *delta.PostingDelta:
		return fmt.Sprintf("posting in %q, file group %s, position %d", v.PartitionPath, v.FileGroupID, v.RowPosition)
	case *delta.ClusterStats:
		return fmt.Sprintf("%d live, %d deltas, %d tombstones", v.LiveCount, v.DeltaCount, v.TombstoneCount)
	case *delta.SourceInstantMarker:
		return "covers " + v.DataInstant
	case *delta.Tombstone:
		return fmt.Sprintf("tombstone, deleted by %s", v.DeleteInstant)
	}
	return ""
}

// logRecord is one record or delete of a log block that is not an HFile, for programs.
type logRecord struct {
	Block     int    `json:"block"`
	Type      string `json:"type"`
	Instant   string `json:"instant,omitempty"`
	Value     string `json:"value,omitempty"`     // hex of the Avro binary
	Key       string `json:"key,omitempty"`       // of a delete: text
	Partition string `json:"partition,omitempty"` // of a delete
	Size      int64  `json:"size,omitempty"`      // of a block whose records are not shown
	Target    string `json:"target,omitempty"`    // of a command: what it rolls back
	Reason    string `json:"reason,omitempty"`    // of a corrupt region
}

func (a *app) inspectLog(ctx context.Context, f inspected) error {
	if !a.json {
		a.say("log file, %s", size(f.size))
		if n, ok := logfile.ParseName(f.name); ok {
			a.say("file group %s, instant %s, version %d", n.FileID, n.Instant, n.Version)
		}
	}
	i := 0
	for b, err := range logfile.Blocks(ctx, f.source()) {
		if err != nil {
			return err
		}
		if err := a.showBlock(ctx, f, i, b); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
		i++
	}
	return nil
}

// showBlock prints one block of a log file.
func (a *app) showBlock(ctx context.Context, f inspected, i int, b logfile.Block) error {
	rec := logRecord{Block: i, Type: b.Type.String(), Instant: b.Instant()}
	if !a.json {
		a.say("block %d at %d: %s, %s, instant %s", i, b.Offset, b.Type, size(b.Size), b.Instant())
		keys := slices.Clone(b.Entries)
		for _, e := range keys {
			if e.Key != logfile.InstantTime && e.Key != logfile.SchemaKey {
				a.say("  header %d: %s", e.Key, e.Value)
			}
		}
	}
	switch b.Type {
	case logfile.TypeHFile:
		r, err := hfile.Open(ctx, storage.BytesSource(b.Content))
		if err != nil {
			return err
		}
		return a.showCells(ctx, f, r, "  ")
	case logfile.TypeAvro:
		records, err := b.AvroRecords()
		if err != nil {
			return err
		}
		if !a.json {
			a.say("  %s", plural(len(records), "record"))
			return nil
		}
		for _, bin := range records {
			rec.Value = hex.EncodeToString(bin)
			if err := a.object(rec); err != nil {
				return err
			}
		}
		return nil
	case logfile.TypeDelete:
		return a.showDeletes(f, rec, b)
	case logfile.TypeCommand:
		rec.Target, _ = b.Rollback()
		if !a.json {
			a.say("  rolls back %s", rec.Target)
		}
	case logfile.TypeCorrupt:
		rec.Reason = b.Reason
		if !a.json {
			a.say("  corrupt: %s", rec.Reason)
		}
	}
	if a.json {
		rec.Size = b.Size
		return a.object(rec)
	}
	return nil
}

func (a *app) showDeletes(f inspected, rec logRecord, b logfile.Block) error {
	deletes, err := b.Deletes()
	if err != nil {
		return err
	}
	if !a.json {
		a.say("  %s", plural(len(deletes), "delete"))
	}
	for n, d := range deletes {
		rec.Key, rec.Partition = d.Key, d.Partition
		if a.json {
			if err := a.object(rec); err != nil {
				return err
			}
		} else if f.limit == 0 || n < f.limit {
			a.say("    %q in partition %q", d.Key, d.Partition)
		}
	}
	return nil
}
