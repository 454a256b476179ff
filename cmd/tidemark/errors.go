package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tidemark/internal/config"
	"tidemark/internal/storage"
)

// Exit codes of every command.
const (
	exitOK       = 0 // did what was asked; for status: fresh
	exitFailed   = 1 // failed or refused
	exitUsage    = 2 // the command line is wrong
	exitNotFresh = 3 // not fresh, or not covered
	exitMismatch = 4 // index and table differ
)

// exitError carries an exit code. With a nil err the answer has been printed and only the code is left to give.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitWith ends a command with a code after its answer was printed; nil for code 0.
func exitWith(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

// hinted adds a next step, and facts for programs, to an error.
type hinted struct {
	err   error
	hint  string
	facts map[string]any
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

// usage says that the command line of c is wrong and, where the error does not, how to find the right one.
func usage(c *cobra.Command, err error) error {
	if hintOf(err) != "" {
		return &exitError{code: exitUsage, err: err}
	}
	return &exitError{code: exitUsage, err: &hinted{err: err, hint: fmt.Sprintf("see '%s --help'", c.CommandPath())}}
}

// exitCode chooses the exit code for an error.
func exitCode(err error) int {
	var e *exitError
	if errors.As(err, &e) {
		return e.code
	}
	return exitFailed
}

// hintOf returns the next step for the operator; "" if nobody knows one.
func hintOf(err error) string {
	var h *hinted
	if errors.As(err, &h) && h.hint != "" {
		return h.hint
	}
	return storage.Hint(err)
}

// kinds names the error kinds for programs.
var kinds = []struct {
	err  error
	name string
}{
	{storage.ErrNotFound, "not_found"},
	{storage.ErrExists, "exists"},
	{storage.ErrConflict, "conflict"},
	{storage.ErrCorrupt, "corrupt"},
	{storage.ErrUnsupported, "unsupported"},
	{storage.ErrStale, "stale"},
	{storage.ErrRefused, "refused"},
}

// kindOf names the kind of an error: "usage", one of kinds, or "failed".
func kindOf(err error) string {
	if exitCode(err) == exitUsage {
		return "usage"
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "failed"
}

// reportError prints an error: for people a line on standard error that says what, where and the next step, and one for each mistake of a configuration; for
// programs one object on standard output.
func (a *app) reportError(err error) {
	text, hint := oneLine(err.Error()), oneLine(hintOf(err))
	if a.json {
		object := map[string]any{}
		for e := err; e != nil; e = errors.Unwrap(e) {
			var h *hinted
			if !errors.As(e, &h) {
				break
			}
			maps.Copy(object, h.facts)
			e = h
		}
		object["error"], object["hint"], object["kind"] = text, hint, kindOf(err)
		_ = a.object(object)
		return
	}
	var f *config.Faults
	if errors.As(err, &f) && len(f.All) > 1 { // a line each, as long as the file is
		for _, one := range f.All {
			a.warn("%s", oneLine(one.Error()))
		}
		text = fmt.Sprintf("read configuration: %d mistakes", len(f.All))
	}
	if hint != "" {
		text += "; " + hint
	}
	a.warn("%s", text)
	if f != nil {
		for _, w := range f.Warnings {
			a.warn("warning: %s", w)
		}
	}
}

// oneLine joins the lines of a text, such as that of joined errors, and leaves out what two rooms on the way of an error
// said in the same words.
func oneLine(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.Join(slices.Compact(strings.Split(strings.TrimSpace(lines[i]), ": ")), ": ")
	}
	return strings.Join(lines, "; ")
}
