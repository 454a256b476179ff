// Package indexertest has what tests of the rooms around indexer share: fixture tables in memory, indexes of them, and what an index holds in
// the end. It owns no rule of the product, and the program never imports it.
package indexertest
