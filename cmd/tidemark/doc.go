// Command tidemark keeps a vector index of an Apache Hudi table fresh from outside the JVM.
//
// It owns the command line: flags, help, what people and programs are shown, exit codes. It refuses every
// decision about tables and indexes: it constructs the rooms, calls them and prints what they return. It may
// import everything. Invariant: with --json, standard output holds JSON and nothing else, errors included; only
// help is for people.
package main
