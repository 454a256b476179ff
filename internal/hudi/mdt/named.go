package mdt

import (
	"regexp"
	"strings"
	"unicode/utf8"
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
		if namesTable(text[end:], table) {
			continue
		}
		out.WriteString(" " + Named(table, sink))
		if text[at[2]:at[3]] == "index create" {
			out.WriteString(" --column COLUMN")
		}
	}
	return out.String() + text[end:]
}

// namesTable says whether what follows a command begins with a table. It may be followed by the sentence that the command stands in.
func namesTable(rest, table string) bool {
	rest, ok := strings.CutPrefix(rest, " ")
	if !ok || rest == "" {
		return false
	}
	for _, word := range []string{table, Word(table), "TABLE"} {
		if after, ok := strings.CutPrefix(rest, word); ok && word != "" && (after == "" || !wordly(after)) {
			return true
		}
	}
	next, _, _ := strings.Cut(rest, " ")
	return strings.ContainsAny(next[:1], "/.'") || strings.Contains(next, "://")
}

// wordly says whether a text goes on with the word that stands before it, and not with a space, an end or a mark of punctuation.
func wordly(s string) bool {
	r := s[0]
	if strings.IndexByte(".,:", r) >= 0 { // of a path, or of the sentence
		return len(s) > 1 && s[1] != ' '
	}
	return r >= utf8.RuneSelf || strings.IndexByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/@%+=", r) >= 0
}
