// Package markers says what an index covers: which data-write instants are incorporated, how far the
// contiguous frontier reaches, what holds it, and how large the lag is.
//
// It owns the frontier rule and the lag arithmetic. It refuses to know where markers are stored, what a
// clock says, or how rows are compared. It may import timeline. Its one invariant: a frontier F is returned
// only if every data-write instant that is completed at or before F is incorporated, and none that was
// requested before F is still open.
package markers
