// Package testkit hands fixtures to tests: tables unpacked into a test's own folder, the rows that Spark
// saw after every step, and golden files. It owns the way tests reach fixtures/ and refuses everything that
// is not test input. It may import package fixtures only, so every room's tests can use it. Invariant: a test
// never writes below fixtures/.
package testkit
