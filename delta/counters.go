package delta

// Counters are the totals of one cluster. They are hints: written as absolute values, of which a fold keeps the newest, and never
// the reason for an answer (design, decision 5).
type Counters struct {
	Live      int64 // record keys that have a live posting
	Delta     int64 // posting deltas written since the bootstrap, those that it wrote itself included
	Tombstone int64 // tombstones written since then
}

// CountersOf takes the totals out of a stats record.
func CountersOf(s *ClusterStats) Counters {
	return Counters{Live: s.LiveCount, Delta: s.DeltaCount, Tombstone: s.TombstoneCount}
}

// Plus returns the sum.
func (c Counters) Plus(d Counters) Counters {
	return Counters{Live: c.Live + d.Live, Delta: c.Delta + d.Delta, Tombstone: c.Tombstone + d.Tombstone}
}

// Stats returns the stats record of a cluster: routing version 0, no file group ids, no rebalance. Live is held at 0: totals are
// hints, and a wrong one must not stop a batch.
func (c Counters) Stats(segments int, updatedTs int64) *ClusterStats {
	return &ClusterStats{
		ShardCount: int32(segments), LiveCount: max(0, c.Live), DeltaCount: c.Delta, TombstoneCount: c.Tombstone,
		LastUpdatedTs: updatedTs,
	}
}
