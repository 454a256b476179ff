package indexer

// Judged is how many instants a Sync went through to find out what is due.
func Judged(r *SyncResult) int { return r.judged }
