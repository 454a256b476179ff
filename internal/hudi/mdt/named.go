package mdt

import "strings"

// Named is a table, and the place beside it if sink is not "", as words of a command line: each can be pasted into a shell.
func Named(table, sink string) string {
	if sink == "" {
		return Word(table)
	}
	return Word(table) + " --sink " + Word(sink)
}

// Word makes a text safe to paste into a shell.
func Word(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
