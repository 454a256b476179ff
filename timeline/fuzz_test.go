package timeline_test

import (
	"errors"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/testkit"
	"tidemark/timeline"
)

func FuzzCommit(f *testing.F) {
	f.Add([]byte(`{"partitionToWriteStats":{"":[{"fileId":"f"}]}}`))
	f.Add(testkit.File(f, "hudi-rs/commit_metadata/v8_deltacommit.avro"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := timeline.ParseCommit(b); err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrUnsupported) {
			t.Errorf("error of no kind: %v", err)
		}
	})
}

func FuzzProperties(f *testing.F) {
	f.Add([]byte(v9))
	f.Add([]byte("a\\u12=\\\nb\\"))
	f.Fuzz(func(t *testing.T, b []byte) {
		// The names keep the content acceptable, so that the rest of it is looked at.
		p, err := timeline.ReadProperties(append(b, "\n"+v9...))
		if err != nil {
			return
		}
		_ = errors.Join(p.CheckReadable(), p.CheckWritable())
	})
}
