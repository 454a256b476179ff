package azblob_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"tidemark/internal/storage"
	"tidemark/internal/storage/azblob"
)

// roundTrip is a transport of one function.
type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const url = "abfss://box@acct.dfs.core.windows.net/lake/t"

// Where requests go and what they carry. The test clears the environment.
func TestEndpointsAndCredentials(t *testing.T) {
	for _, name := range []string{"ACCOUNT", "KEY", "SAS_TOKEN", "CONNECTION_STRING", "SERVICE_ENDPOINT"} {
		t.Setenv("AZURE_STORAGE_"+name, "")
	}
	for _, c := range []struct {
		name, url string
		env       map[string]string
		o         azblob.Options
		host      string
		path      string
		auth      string // start of the header
		query     string // part of it
	}{
		{name: "key in the environment", url: url, env: map[string]string{"KEY": "a2V5"},
			host: "acct.blob.core.windows.net", path: "/box/lake/t/f", auth: "SharedKey acct:"},
		{name: "wasb", url: "wasbs://box@acct.blob.core.windows.net/t", env: map[string]string{"KEY": "a2V5"},
			host: "acct.blob.core.windows.net", path: "/box/t/f", auth: "SharedKey acct:"},
		{name: "account alone", url: "abfs://box@acct/t", env: map[string]string{"KEY": "a2V5"},
			host: "acct.blob.core.windows.net", path: "/box/t/f", auth: "SharedKey acct:"},
		{name: "another cloud", url: "abfss://box@acct.dfs.core.chinacloudapi.cn/t", env: map[string]string{"KEY": "a2V5"},
			host: "acct.blob.core.chinacloudapi.cn", path: "/box/t/f", auth: "SharedKey acct:"},
		{name: "signature", url: url, env: map[string]string{"SAS_TOKEN": "?sv=1&sig=SECRET"},
			host: "acct.blob.core.windows.net", path: "/box/lake/t/f", query: "sig=SECRET"},
		{name: "connection string", url: url,
			env:  map[string]string{"CONNECTION_STRING": "AccountName=acct;AccountKey=a2V5;EndpointSuffix=core.example"},
			host: "acct.blob.core.example", path: "/box/lake/t/f", auth: "SharedKey acct:"},
		{name: "endpoint", url: url, o: azblob.Options{Endpoint: "https://host:1/acct/", Key: "a2V5"},
			host: "host:1", path: "/acct/box/lake/t/f", auth: "SharedKey acct:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv("AZURE_STORAGE_"+k, v)
			}
			stop, asked := errors.New("stop here"), 0
			c.o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				asked++
				if r.URL.Host != c.host || r.URL.Path != c.path || !strings.HasPrefix(r.Header.Get("Authorization"), c.auth) ||
					!strings.Contains(r.URL.RawQuery, c.query) {
					t.Errorf("asked %s with %v", r.URL, r.Header)
				}
				return nil, stop
			})
			st, err := azblob.New(c.url, c.o)
			if err != nil || asked != 0 {
				t.Fatal(err, asked)
			}
			_, _, err = st.ReadFile(t.Context(), "f")
			if !errors.Is(err, stop) || asked != 1 || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("%v after %d requests", err, asked)
			}
		})
	}
	for _, c := range []struct {
		name string
		o    azblob.Options
		env  string
	}{
		{"key of another account", azblob.Options{ConnectionString: "AccountName=other;AccountKey=a2V5"}, ""},
		{"another account in the environment", azblob.Options{Key: "a2V5"}, "other"},
		{"no base64", azblob.Options{Key: "%"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("AZURE_STORAGE_ACCOUNT", c.env)
			st, err := azblob.New(url, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := st.List(t.Context(), ""); !errors.Is(err, storage.ErrRefused) || storage.Hint(err) == "" {
				t.Errorf("%v, hint %q", err, storage.Hint(err))
			}
		})
	}
}
