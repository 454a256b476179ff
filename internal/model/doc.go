// Package model explores the protocol exhaustively: every order in which a few writers, the archiver, rollbacks, restores,
// crashes, the metadata table's own services and two Tidemarks can act on a small table.
//
// It owns the small table: instants, undoings, archive, state object and processes as plain numbers, and the steps that
// each can take. What the index claims, when a claim may become visible, and whether an answer is fresh are decided by package
// markers, the code that the program runs; nothing of that is written a second time here. It refuses to know files, rows or
// bytes: what an instant changes is one bit, "its rows are in the index". It may import markers and timeline.
//
// Invariants, checked in every state that can be reached: a frontier F is claimed only if every data write that completed at
// or before F and is still effective is in the index; what is claimed as covered is in the index; and an answer is called
// fresh only if the index holds exactly the data writes of the reader's snapshot.
package model
