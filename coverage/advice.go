package coverage

import (
	"cmp"
	"context"
	"strings"

	"tidemark/internal/storage"
)

// ToBeFresh is what to do about an index that a search was refused for, because it is not fresh: what status says, in a few words. index
// may be "" where the table has one. It looks at the table anew.
func ToBeFresh(ctx context.Context, deps Deps, index string) string {
	all, err := Status(ctx, deps)
	for _, s := range all {
		if err != nil || s.Fresh || s.Building || index != "" && (s.Index == nil || *s.Index != index) {
			continue
		}
		switch {
		case s.State == StateCatchingUp && s.Next != "":
			return "catch up first: " + s.Next
		case s.State == StateCatchingUp: // what an operator let be is not proposed
			return s.Reason
		}
		return "it is " + string(s.State) + ": " + cmp.Or(s.Next, s.Reason)
	}
	return "'" + (&look{deps: deps}).command("status", "") + "' says what to do"
}

// asideNext is what an operator may do about a commit that was set aside.
func (l *look) asideNext(requested string) string {
	return "once its cause is gone: " + l.command("retry", requested) + "; if it cannot be removed: " + l.command("skip", requested+" --reason TEXT") +
		", and " + l.command("reconcile", "") + " when later commits have replaced its files"
}

// inShort says of a failure, for a sentence, what people can do something with. All of it belongs into the details.
func inShort(failure string) string {
	switch {
	case strings.HasSuffix(failure, ": "+storage.ErrCorrupt.Error()):
		return ": a file of it is damaged"
	case strings.HasSuffix(failure, ": "+storage.ErrUnsupported.Error()):
		return ": a file of it is of a kind that this version does not read"
	}
	return ""
}
