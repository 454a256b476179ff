// Package kernel owns the arithmetic on whole vectors: element types and their conversion, the three metrics, which
// vectors can be indexed, exact distances, and the flat nearest-centroid routing.
//
// It refuses to own codes and estimates (package rabitq), training and probing (package ivf), and where vectors come
// from. It may import nothing of the project.
//
// Invariant: the same inputs give the same bits on every machine. Sums run in ascending order in float64, every product
// is rounded by an explicit conversion before it is added, so no compiler may fuse the two steps, and loops that work on
// several rows at once keep one accumulator for each row.
package kernel
