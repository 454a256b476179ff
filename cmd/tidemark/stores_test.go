package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark/internal/storage/cloudtest"
	"tidemark/internal/storage/open"
	"tidemark/internal/storage/retry"
	"tidemark/internal/testkit"
)

// The main path on every kind of object store gives the answers that it gives on a local disk, and leaves the same names.
// Environment variables say where the stores are, as for a user, so the test is not parallel.
func TestObjectStores(t *testing.T) {
	s3, gcs, azure := cloudtest.S3(t), cloudtest.GCS(t), cloudtest.Azure(t)
	for k, v := range map[string]string{
		"AWS_ACCESS_KEY_ID": cloudtest.Writer, "AWS_SECRET_ACCESS_KEY": cloudtest.Secret, "AWS_REGION": cloudtest.Region,
		"AWS_ENDPOINT_URL": s3.URL, "AWS_EC2_METADATA_DISABLED": "true",
		"STORAGE_EMULATOR_HOST":            strings.TrimPrefix(gcs.URL, "http://"),
		"AZURE_STORAGE_SERVICE_ENDPOINT":   azure.URL,
		"AZURE_STORAGE_CONNECTION_STRING":  "AccountName=" + cloudtest.Account + ";AccountKey=" + cloudtest.Key,
		"AZURE_STORAGE_ACCOUNT":            cloudtest.Account,
		"GOOGLE_CLOUD_QUOTA_PROJECT":       "",
		"TIDEMARK_S3_PATH_STYLE":           "",
		"AWS_PROFILE":                      "",
		"AWS_REQUEST_CHECKSUM_CALCULATION": "when_supported",
	} {
		t.Setenv(k, v)
	}
	local := testkit.Table(t, "cow_basic")
	const key = "lake/a table"
	stores := []struct {
		url    string
		server *cloudtest.Server
	}{
		{"s3://" + cloudtest.Bucket + "/" + key, s3},
		{"gs://" + cloudtest.Bucket + "/" + key + "/", gcs},
		{"abfss://" + cloudtest.Bucket + "@" + cloudtest.Account + ".dfs.core.windows.net/" + key, azure},
	}
	for _, st := range stores {
		st.server.PutTree(key, local)
	}
	want := walk(t, local)
	for _, st := range stores {
		fill(t, st.url, st.server)
		hurt := trouble(st.server)
		if diff := cmp.Diff(want, walk(t, st.url)); diff != "" {
			t.Errorf("%s, -local +there:\n%s", st.url, diff)
		}
		st.server.SetHook(nil)
		if hurt.Load() < 10 {
			t.Errorf("%s: only %d requests went wrong", st.url, hurt.Load())
		}
		if n := len(st.server.Requests()); n > 2500 {
			t.Errorf("%s: %d requests", st.url, n)
		}
	}

	// The index in a bucket, of a table on disk that nothing is written to.
	only := testkit.Table(t, "cow_basic")
	before, err := tree(only)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, walk(t, only, "--sink", "s3://"+cloudtest.Bucket+"/indexes/of a table")); diff != "" {
		t.Errorf("beside, -inside +beside:\n%s", diff)
	}
	if after, err := tree(only); err != nil || !cmp.Equal(before, after) {
		t.Errorf("the table changed: %v %s", err, cmp.Diff(before, after))
	}

	// Who may only read can still ask; who may not at all, or asks another region, is told what to do.
	for _, c := range []struct {
		name, env, value string
		args             []string
		want             int
		hint             string
	}{
		{"read-only status", "AWS_ACCESS_KEY_ID", cloudtest.Reader, []string{"status"}, exitOK, ""},
		{"read-only search", "AWS_ACCESS_KEY_ID", cloudtest.Reader, []string{"search", "--vector", "[1,0,0,0,0,0,0,0]"}, exitOK, ""},
		{"read-only drop", "AWS_ACCESS_KEY_ID", cloudtest.Reader,
			[]string{"index", "drop", "--index", "embedding_idx", "--yes-drop", "embedding_idx"}, exitFailed, "permission to get and list"},
		{"read-only sync", "AWS_ACCESS_KEY_ID", cloudtest.Reader, []string{"sync"}, exitFailed, "permission to get and list"},
		{"read-only reconcile", "AWS_ACCESS_KEY_ID", cloudtest.Reader, []string{"reconcile"}, exitFailed, "permission to get and list"},
		{"no such bucket for the index", "", "", []string{"status", "--sink", "s3://other/i", only}, exitNotFresh, "there is no bucket other"},
		{"wrong key", "AWS_ACCESS_KEY_ID", "nobody", []string{"status"}, exitNotFresh, "the credentials are wrong or expired"},
		{"no key", "AWS_ACCESS_KEY_ID", "", []string{"status"}, exitNotFresh, "set AWS_ACCESS_KEY_ID"},
		{"wrong region", "AWS_REGION", "us-west-2", []string{"status"}, exitNotFresh, "set AWS_REGION=" + cloudtest.Region},
		{"no such bucket", "", "", []string{"status", "s3://other/t"}, exitNotFresh, "there is no bucket other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.env != "" {
				t.Setenv(c.env, c.value)
			}
			args := append([]string{}, c.args...)
			if !strings.HasPrefix(c.name, "no such bucket") {
				args = append(args, stores[0].url)
			}
			var stdout, stderr bytes.Buffer
			got := run(t.Context(), args, &stdout, &stderr)
			if got != c.want || !strings.Contains(stdout.String()+stderr.String(), c.hint) {
				t.Errorf("%q: exit code %d: %s%s", args, got, &stdout, &stderr)
			}
		})
	}
}

// fill goes the main path on a full store: it is refused with the next step, and leaves nothing in the way of the next try.
func fill(t *testing.T, url string, server *cloudtest.Server) {
	t.Helper()
	server.SetHook(func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		if r.Method == http.MethodPut || r.Method == http.MethodPost {
			w.WriteHeader(http.StatusInsufficientStorage)
			return
		}
		serve(w, r)
	})
	defer server.SetHook(nil)
	var stdout, stderr bytes.Buffer
	args := []string{"index", "create", url, "--column", "embedding"}
	if got := run(t.Context(), args, &stdout, &stderr); got != exitFailed || !strings.Contains(stderr.String(), "free space") {
		t.Errorf("full: exit code %d: %s%s", got, &stdout, &stderr)
	}
}

// trouble makes every 31st request of a server go wrong: refused for now, done but the answer lost, or the answer cut short. It
// returns how many did.
func trouble(server *cloudtest.Server) *atomic.Int64 {
	var n atomic.Int64
	hurt := new(atomic.Int64)
	server.SetHook(func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		if n.Add(1)%17 != 0 {
			serve(w, r)
			return
		}
		switch hurt.Add(1) % 3 {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1:
			cloudtest.Lose(w, r, serve)
		default:
			cloudtest.Cut(w, r, serve, 10)
		}
	})
	return hurt
}

// The same on servers that somebody started; see the test of that name in internal/storage/storetest.
func TestReal(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"S3", "GS", "AZURE"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := os.Getenv("TIDEMARK_TEST_" + name)
			if base == "" {
				t.Skip("TIDEMARK_TEST_" + name + " is not set")
			}
			local := testkit.Table(t, "cow_basic")
			url := fmt.Sprintf("%s/%d-cow_basic", base, os.Getpid())
			st, err := open.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			err = filepath.WalkDir(local, func(p string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				rel, err := filepath.Rel(local, p)
				if err != nil {
					return err
				}
				data, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				_, err = st.Create(t.Context(), filepath.ToSlash(rel), data)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(walk(t, local), walk(t, url)); diff != "" {
				t.Errorf("%s, -local +there:\n%s", url, diff)
			}
			if s, ok := st.(*retry.Store); ok {
				t.Logf("%s: the copy took %+v", url, s.Stats())
			}
		})
	}
}

// walk goes the main path on a table and returns what must not depend on where the table is.
func walk(t *testing.T, url string, more ...string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, args := range [][]string{
		{"index", "create", url, "--column", "embedding", "--as-of", "20261130020913200"},
		{"sync", url},
		{"status", url},
		{"verify", url},
		{"search", url, "--vector", "[1,0,0,0,0,0,0,0]"},
	} {
		var stdout, stderr bytes.Buffer
		if got := run(t.Context(), append(append(args, "--json"), more...), &stdout, &stderr); got != exitOK {
			t.Fatalf("%q: exit code %d: %s%s", args, got, &stdout, &stderr)
		}
		var answer map[string]any
		if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil {
			t.Fatalf("%q: %v: %s", args, err, &stdout)
		}
		for k, v := range answer {
			if k != "table" {
				out[args[0]+"."+k] = v
			}
		}
	}
	return out
}
