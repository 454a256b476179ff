// Package arrowx writes answers as Arrow record batches in an IPC stream. It is the only place that imports Arrow.
package arrowx
