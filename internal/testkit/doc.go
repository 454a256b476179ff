// Package testkit hands fixtures to tests: tables unpacked into a test's own folder, the rows that Spark
// saw after every step, and golden files. It may import nothing of the project, so every room's tests can use it.
package testkit
