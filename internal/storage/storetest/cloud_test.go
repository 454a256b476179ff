package storetest_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/azblob"
	"tidemark/internal/storage/cloudtest"
	"tidemark/internal/storage/gs"
	"tidemark/internal/storage/open"
	"tidemark/internal/storage/retry"
	"tidemark/internal/storage/s3"
	"tidemark/internal/storage/storetest"
)

// A page of three names makes every listing of the suite go over several.
const pageSize = 3

// TestS3 sets the environment, as the SDK wants it, and therefore is not parallel with others; its parts are.
func TestS3(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", cloudtest.Writer)
	t.Setenv("AWS_SECRET_ACCESS_KEY", cloudtest.Secret)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	server := cloudtest.S3(t)
	server.SetPageSize(pageSize)
	o := s3.Options{Endpoint: server.URL, Region: cloudtest.Region}
	run(t, func(dir string) (storage.Store, error) { return s3.New(cloudtest.Bucket, dir, o) })
}

func TestGS(t *testing.T) {
	t.Parallel()
	server := cloudtest.GCS(t)
	server.SetPageSize(pageSize)
	o := gs.Options{Endpoint: server.URL}
	run(t, func(dir string) (storage.Store, error) { return gs.New(cloudtest.Bucket, dir, o) })
}

func TestAzure(t *testing.T) {
	t.Parallel()
	server := cloudtest.Azure(t)
	server.SetPageSize(pageSize)
	o := azblob.Options{Endpoint: server.URL, Key: cloudtest.Key}
	run(t, func(dir string) (storage.Store, error) {
		return azblob.New("abfss://"+cloudtest.Bucket+"@"+cloudtest.Account+".dfs.core.windows.net/"+dir, o)
	})
}

// run runs the suite, each part in a directory of its own, as it is and below the layer that repeats calls.
func run(t *testing.T, make func(dir string) (storage.Store, error)) {
	var n atomic.Int64
	storetest.Run(t, func(t *testing.T) storage.Store {
		st, err := make(fmt.Sprintf("lake/table %d", n.Add(1)))
		if err != nil {
			t.Fatal(err)
		}
		if n.Load()%2 == 0 {
			return retry.New(st, retry.Config{})
		}
		return st
	})
}

// TestReal runs the suite against servers that somebody started: TIDEMARK_TEST_S3, TIDEMARK_TEST_GS and TIDEMARK_TEST_AZURE
// name a place to write below, such as s3://bucket/dir; the usual variables of each SDK say how to get there.
func TestReal(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"S3", "GS", "AZURE"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := os.Getenv("TIDEMARK_TEST_" + name)
			if url == "" {
				t.Skip("TIDEMARK_TEST_" + name + " is not set")
			}
			run(t, func(dir string) (storage.Store, error) {
				return open.Open(t.Context(), fmt.Sprintf("%s/%d-%s", url, os.Getpid(), dir))
			})
		})
	}
}
