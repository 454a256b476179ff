// Package otel turns what the other rooms tell their observers into metrics and traces.
//
// It owns the telemetry SDK: which metrics there are and what they are called, the spans of a commit, and where both go. It
// refuses to know what is good or bad; that is in the alert rules. It implements observers that others declare, above all
// follow.Observer, and decides nothing for them.
//
// Invariant: a series says what was last told of a table that is still followed. One of a table or index that is gone
// disappears, it does not stand still. Defaults need nothing: Handler serves Prometheus, and the standard OTEL_… variables turn
// on sending by OTLP.
package otel
