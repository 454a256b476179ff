// Package kafka brings hints from a topic with Hudi's commit callback messages.
//
// It owns the consumer group: connecting, sharing the topic's partitions with other processes, telling messages from what is
// none, and when an offset is committed. It does not own what a hint leads to: whoever takes the hints decides which table
// is meant and says when the pass that began after the hint has ended.
//
// Invariant: the committed offset of a partition is never past a hint whose pass has not ended, unless the hint was let go by
// the bound on how many may be outstanding, which is counted. A message is a hint and nothing more: one that is lost, doubled or late
// costs time, never truth, since the timeline decides and polling looks in any case. So nothing in a topic can stop it.
package kafka
