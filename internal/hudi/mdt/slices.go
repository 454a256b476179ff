package mdt

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"

	"tidemark/internal/hudi/logfile"
	"tidemark/internal/storage"
)

// partition is one partition of the metadata table as it was listed.
type partition struct {
	name   string
	groups []group // by index; complete from 0 on
}

// group is the newest file slice of one file group.
type group struct {
	id   string
	base *storage.Info // nil: logs only
	logs []storage.Info
}

// baseName is `<fileId>_<token>_<instant>.hfile`.
var baseName = regexp.MustCompile(`^([^_.]+)_(\d+-\d+-\d+)_(\d+)\.hfile$`)

// groupID is a file id of an MDT partition; the first number is the group's index. Ids before Hudi 0.11 lack the "-0".
var groupID = regexp.MustCompile(`^(.+)-(\d{4,})(-0)?$`)

// partition lists a partition and picks each group's newest slice. The number of groups is what storage has; a hole
// in the numbers means the listing is not whole.
func (m *MDT) partition(ctx context.Context, name string) (*partition, error) {
	m.mu.Lock()
	p := m.listed[name]
	m.mu.Unlock()
	if p != nil {
		return p, nil
	}
	dir := path.Join(rootDir, name)
	infos, err := m.Store.List(ctx, dir)
	if err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			return nil, &storage.Error{Op: "list metadata partition", Path: dir, Err: err,
				Hint: "the metadata table has no partition " + name + "; enable it in the writer and commit once"}
		}
		return nil, fmt.Errorf("list metadata partition %s: %w", name, err)
	}
	p, err = m.pick(name, infos)
	if err != nil {
		return nil, &storage.Error{Op: "list metadata partition", Path: dir, Err: err}
	}
	m.mu.Lock()
	m.listed[name] = p
	m.mu.Unlock()
	return p, nil
}

// candidate is a file group while its slice is being picked.
type candidate struct {
	index       int
	base        storage.Info
	baseInstant string
	logs        []namedLog
}

type namedLog struct {
	info storage.Info
	name logfile.Name
}

func (m *MDT) pick(name string, infos []storage.Info) (*partition, error) {
	byID := map[string]*candidate{}
	prefix := ""
	get := func(id string) (*candidate, error) {
		if c := byID[id]; c != nil {
			return c, nil
		}
		parts := groupID.FindStringSubmatch(id)
		if parts == nil {
			return nil, fmt.Errorf("file id %q has no group number: %w", id, storage.ErrUnsupported)
		}
		if prefix == "" {
			prefix = parts[1]
		}
		if parts[1] != prefix {
			return nil, fmt.Errorf("file ids %q and %q in one partition (a record index per data partition): %w", prefix, parts[1], storage.ErrUnsupported)
		}
		n, err := strconv.Atoi(parts[2])
		if err != nil {
			return nil, fmt.Errorf("file id %q: %w", id, storage.ErrUnsupported)
		}
		byID[id] = &candidate{index: n}
		return byID[id], nil
	}
	for _, info := range infos {
		file := path.Base(info.Path)
		if parts := baseName.FindStringSubmatch(file); parts != nil {
			if _, done := m.Timeline.IsCompleted(parts[3]); !done {
				continue // of a compaction that is under way, or newer than this snapshot
			}
			c, err := get(parts[1])
			if err != nil {
				return nil, err
			}
			if parts[3] > c.baseInstant || parts[3] == c.baseInstant && file > path.Base(c.base.Path) {
				c.base, c.baseInstant = info, parts[3]
			}
		} else if n, ok := logfile.ParseName(file); ok && !n.CDC {
			if _, done := m.Timeline.IsCompleted(n.Instant); !done && m.Props.Version >= 8 {
				continue
			}
			c, err := get(n.FileID)
			if err != nil {
				return nil, err
			}
			c.logs = append(c.logs, namedLog{info, n})
		}
	}
	p := &partition{name: name}
	for id, c := range byID {
		g := group{id: id}
		if c.baseInstant != "" {
			g.base = &c.base
		}
		slices.SortFunc(c.logs, func(a, b namedLog) int { return logfile.Compare(a.name, b.name) })
		for _, l := range c.logs {
			if m.inSlice(l.name.Instant, c.baseInstant) {
				g.logs = append(g.logs, l.info)
			}
		}
		p.groups = append(p.groups, g)
	}
	sort.Slice(p.groups, func(i, j int) bool { return byID[p.groups[i].id].index < byID[p.groups[j].id].index })
	for i, g := range p.groups {
		if byID[g.id].index != i {
			return nil, fmt.Errorf("file group %d of %d is missing or there twice: %w", i, len(p.groups), storage.ErrCorrupt)
		}
	}
	if len(p.groups) == 0 {
		return nil, fmt.Errorf("no file group of a completed instant: %w", storage.ErrNotFound)
	}
	return p, nil
}

// inSlice says whether a log file lies on the newest base file. From version 8 on a log belongs to the greatest base instant
// that is not above the completion time of the deltacommit that wrote it; one that is archived counts as completed when it was
// requested, as in Hudi. In version 6 the name carries the base instant; logs of a compaction under way lie above it.
func (m *MDT) inSlice(instant, base string) bool {
	if m.Props.Version < 8 {
		return instant >= base
	}
	completed, _ := m.Timeline.IsCompleted(instant)
	if completed == "" {
		completed = instant
	}
	return completed >= base
}
