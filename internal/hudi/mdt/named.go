package mdt

import (
	"regexp"
	"strings"
)

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

// ofTable are the commands of the command line that take a table.
var ofTable = regexp.MustCompile(`\btidemark (sync|status|wait|search|verify|reconcile|replay|prove|markers|trace|pause|resume|retry|skip|follow|index (?:create|list|drop))\b`)

// Complete names the table, and the place beside it, in the commands that a text proposes without them: rooms below do not know how a user
// names the table. What has them is left alone.
func Complete(text, table, sink string) string {
	var out strings.Builder
	end := 0
	for _, at := range ofTable.FindAllStringSubmatchIndex(text, -1) {
		out.WriteString(text[end:at[1]])
		end = at[1]
		rest := text[end:]
		next, _, _ := strings.Cut(strings.TrimPrefix(rest, " "), " ")
		if strings.HasPrefix(rest, " ") && (next == table || next == Word(table) || next == "TABLE" || strings.ContainsAny(next[:min(1, len(next))], "/.'-") || strings.Contains(next, "://")) {
			continue
		}
		out.WriteString(" " + Named(table, sink))
		if text[at[2]:at[3]] == "index create" {
			out.WriteString(" --column COLUMN")
		}
	}
	return out.String() + text[end:]
}
