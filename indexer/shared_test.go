package indexer_test

import "tidemark/indexer/indexertest"

// What tests of follow use as well, by the names that it has here.
type (
	posting = indexertest.Posting
	outcome = indexertest.Outcome
)

var (
	store           = indexertest.Store
	create          = indexertest.Create
	earliestInstant = indexertest.EarliestInstant
	opened          = indexertest.Opened
	postings        = indexertest.Postings
	markersOf       = indexertest.Markers
	counts          = indexertest.Counts
	outcomeOf       = indexertest.OutcomeOf
	dead            = indexertest.Dead
	inBubble        = indexertest.InBubble
	processorTime   = indexertest.ProcessorTime
)
