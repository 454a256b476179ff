package source

import (
	"context"
	"net/url"
	"path"
	"strings"
	"time"
)

// Hint says that something may have happened to a table. Only Table is required.
type Hint struct {
	// Table is the table's path as the source named it: with or without scheme, see Key.
	Table string
	// Source names who brought it, for what is counted: the Name of a Source, or "http". "" for nobody who counts.
	Source string
	// Instant is the requested time of the commit; "" if the source does not say.
	Instant string
	// Trace is the W3C traceparent of the writer's trace; "" if there is none.
	Trace string
	// Received is when the source got it. Zero means when it was delivered.
	Received time.Time
	// Done is called once, from another goroutine than the deliverer's, when the pass that began after the hint has ended: with nil,
	// or with what stopped that pass (design, decision 24). A hint of a table that is not followed is done at once, with
	// storage.ErrNotFound; one that finds too many others waiting, or a daemon that stops, with storage.ErrRefused. It must not
	// block. It may be nil.
	Done func(err error)
}

// Source delivers hints until its context ends.
type Source interface {
	// Name names the source in logs and metrics, as in "kafka".
	Name() string
	// Run delivers hints and returns when ctx ends, with nil, or when it can go on no more, with the reason; it is then run again after
	// a pause. deliver does not block and may be called from several goroutines. Run waits for what it started.
	Run(ctx context.Context, deliver func(Hint)) error
}

// Key is the form in which names of one table are equal: Hudi's callbacks name a table with or without "file://", with another scheme
// of the same store, or with a slash at the end, as the writer happened to. It never makes names of two tables equal.
func Key(table string) string {
	scheme, rest, found := strings.Cut(table, "://")
	if !found {
		scheme, rest = "", table
		if p, cut := strings.CutPrefix(table, "file:"); cut && strings.HasPrefix(p, "/") { // Hadoop also writes file:/path
			scheme, rest = "file", p
		}
	}
	switch scheme {
	case "", "file":
		if scheme == "file" {
			if u, err := url.Parse("file://" + rest); err == nil && u.Path != "" && (u.Host == "" || u.Host == "localhost") {
				rest = u.Path
			}
		}
		return path.Clean(rest)
	case "s3a", "s3n":
		scheme = "s3"
	case "abfs", "wasb", "wasbs":
		scheme = "abfss"
	}
	if scheme == "abfss" { // one account has an endpoint for each of its protocols
		rest = strings.Replace(rest, ".blob.core.windows.net", ".dfs.core.windows.net", 1)
	}
	bucket, key, _ := strings.Cut(rest, "/")
	key = strings.Trim(path.Clean("/"+key), "/")
	return scheme + "://" + strings.TrimSuffix(bucket+"/"+key, "/")
}
