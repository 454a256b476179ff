package logfile

// Effective returns the blocks of one file slice that count, in merge order, aliasing the input. blocks are those
// of all log files of the slice: files in the order of Compare, blocks in file order. keep says whether data of an
// instant is visible; nil keeps all. Rollback commands apply whatever their own time and wherever their target lies,
// but only to blocks that come before them. A log-compacted group stands once, at the place of the newest
// instant it replaces (docs/format/logfile.md, "Which blocks count"). Corrupt regions and commands are left out; callers count
// them beforehand.
func Effective(blocks []Block, keep func(instant string) bool) []Block {
	groups := map[string][]Block{}
	var order []string
	for _, b := range blocks {
		if target, ok := b.Rollback(); ok {
			if _, there := groups[target]; there {
				delete(groups, target)
				order = remove(order, target)
			}
			continue
		}
		t := b.Instant()
		if !b.IsData() || keep != nil && !keep(t) {
			continue
		}
		if _, there := groups[t]; !there {
			order = append(order, t)
		}
		groups[t] = append(groups[t], b)
	}
	replacedBy := map[string]string{} // instant → newest log compaction that holds its records
	emitted := map[string]bool{}
	var newestFirst [][]Block
	for i := len(order) - 1; i >= 0; i-- {
		t := order[i]
		if times := groups[t][0].CompactedTimes(); len(times) > 0 {
			final := t
			if f, ok := replacedBy[t]; ok {
				final = f
			}
			for _, original := range times {
				replacedBy[original] = final
			}
			continue
		}
		if f, ok := replacedBy[t]; ok {
			t = f
		}
		if emitted[t] {
			continue
		}
		emitted[t] = true
		newestFirst = append(newestFirst, groups[t])
	}
	var out []Block
	for i := len(newestFirst) - 1; i >= 0; i-- {
		out = append(out, newestFirst[i]...)
	}
	return out
}

func remove(list []string, s string) []string {
	for i, x := range list {
		if x == s {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}
