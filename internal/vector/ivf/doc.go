// Package ivf owns the inverted file's clusters: training centroids from a sample, the size of that sample, and the order
// in which a query probes clusters.
//
// It refuses to own which rows are sampled, how centroids are stored, and the cluster of a row (kernel.Router is the one
// routing function). It may import internal/vector/kernel and nothing else of the project.
//
// Invariant: the same sample, configuration and seed give the same centroid bits from any number of workers, on every
// machine. Rows are independent in the assignment, and each cluster's sum runs over its rows in ascending order.
package ivf
