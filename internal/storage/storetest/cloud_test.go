package storetest_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

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

// clouds are the object stores, each with a server in this process.
var clouds = []struct {
	name  string
	start func(t testing.TB) *cloudtest.Server
	// open opens a directory of a bucket on a server at an endpoint.
	open func(endpoint, bucket, dir string) (storage.Store, error)
}{
	{"S3", cloudtest.S3, func(endpoint, bucket, dir string) (storage.Store, error) {
		return s3.New(bucket, dir, s3.Options{Endpoint: endpoint, Region: cloudtest.Region,
			AccessKey: cloudtest.Writer, SecretKey: cloudtest.Secret})
	}},
	{"GS", cloudtest.GCS, func(endpoint, bucket, dir string) (storage.Store, error) {
		return gs.New(bucket, dir, gs.Options{Endpoint: endpoint})
	}},
	{"Azure", cloudtest.Azure, func(endpoint, bucket, dir string) (storage.Store, error) {
		return azblob.New("abfss://"+bucket+"@"+cloudtest.Account+".dfs.core.windows.net/"+dir,
			azblob.Options{Endpoint: endpoint, Key: cloudtest.Key})
	}},
}

func TestClouds(t *testing.T) {
	t.Parallel()
	for _, c := range clouds {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := c.start(t)
			server.SetPageSize(pageSize)
			run(t, func(dir string) (storage.Store, error) { return c.open(server.URL, cloudtest.Bucket, dir) })
		})
	}
}

// Over TLS the SDK reads content once and sends its checksum behind it.
func TestS3OverTLS(t *testing.T) {
	t.Parallel()
	server := cloudtest.S3TLS(t)
	run(t, func(dir string) (storage.Store, error) {
		return s3.New(cloudtest.Bucket, dir, s3.Options{Endpoint: server.URL, Region: cloudtest.Region,
			AccessKey: cloudtest.Writer, SecretKey: cloudtest.Secret, Transport: server.Transport()})
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

// Objects that only stand for directories are no files: names with a slash at the end, and Azure's blobs with a mark.
func TestDirectoryMarkers(t *testing.T) {
	t.Parallel()
	eachCloud(t, func(t *testing.T, server *cloudtest.Server, st storage.Store) {
		now, folder := time.Now(), map[string]string{"hdi_isfolder": "true"}
		server.Put("t/", nil, now, nil)
		server.Put("t/d/", nil, now, nil)
		server.Put("t/e/", nil, now, nil)
		server.Put("t/e/f", []byte("1"), now, nil)
		server.Put("t//odd", []byte("1"), now, nil)
		want := []string{"d true", "e true"}
		if t.Name() == "TestDirectoryMarkers/Azure" {
			server.Put("t/m", nil, now, folder)
			server.Put("t/m/f", []byte("1"), now, nil)
			server.Put("t/n", nil, now, folder)
			want = append(want, "m true", "n true")
			if _, _, err := st.ReadFile(t.Context(), "m"); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("read a mark: %v", err)
			}
			if info, err := st.Stat(t.Context(), "m"); err != nil || !info.IsDir {
				t.Errorf("stat a mark: %+v, %v", info, err)
			}
		}
		infos, err := st.List(t.Context(), "")
		var got []string
		for _, i := range infos {
			got = append(got, fmt.Sprint(i.Path, " ", i.IsDir))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("list: got %q, %v, want %q", got, err, want)
		}
		if infos, err := st.List(t.Context(), "d"); err != nil || len(infos) != 0 {
			t.Errorf("list an empty directory: %v, %v", infos, err)
		}
	})
}
