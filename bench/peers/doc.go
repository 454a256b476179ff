// Command peers compares the index with LanceDB and Faiss on the same data in one run, and prints one table: `make bench-peers`.
//
// It owns the loaders of the two public data sets, Hudi tables made of them, the conversation with the peers, which run in
// processes of their own, and the table. run.sh gets data and peers. It refuses to be part of the program. It may import every room.
//
// Invariant: a goal that was not measured is in the table with the reason; nothing is left out silently.
package main
