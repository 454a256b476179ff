// Package azblob is a storage.Store on Azure Blob Storage, for the abfs and wasb URLs of Hadoop.
//
// It owns the Azure SDK: configuration, requests, what its error codes mean. It speaks to the Blob endpoint, which accounts
// with a hierarchical namespace have too. Everything that is not Azure's own is in package object. It refuses to repeat
// requests (package retry does) and to stage blocks. It may import storage and object only.
//
// Invariant: nothing is looked up, on disk or in the network, before the first request.
package azblob

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"

	"tidemark/internal/storage"
	"tidemark/internal/storage/object"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// Options override what the environment says. The zero value is right.
type Options struct {
	// Endpoint is the URL of the Blob service, with the account where that is in the path. Defaults to the connection string's,
	// then AZURE_STORAGE_SERVICE_ENDPOINT, then https://ACCOUNT.blob.SUFFIX by the URL.
	Endpoint string
	// ConnectionString is Azure's. Defaults to AZURE_STORAGE_CONNECTION_STRING.
	ConnectionString string
	// Key is the account's. Defaults to the connection string's, then AZURE_STORAGE_KEY.
	Key string
	// SAS is a shared access signature. Defaults to the connection string's, then AZURE_STORAGE_SAS_TOKEN.
	SAS string
	// Transport makes the HTTP requests, for tests. Defaults to one with the environment's proxies.
	Transport http.RoundTripper
}

const (
	// maxPut is the service's limit for one put.
	maxPut = 5000 << 20
	// endpointSetting is what to look at when nothing answers.
	endpointSetting = "AZURE_STORAGE_SERVICE_ENDPOINT"
	// publicSuffix follows the account in the URL of the public cloud.
	publicSuffix = "core.windows.net"
)

// New returns the store that a URL names: SCHEME://CONTAINER@ACCOUNT.dfs.SUFFIX/PATH with abfs or abfss, or
// SCHEME://CONTAINER@ACCOUNT.blob.SUFFIX/PATH with wasb or wasbs; the account's name alone means the public cloud. It makes
// no request and looks for no credentials yet.
func New(url string, o Options) (storage.Store, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	authority, prefix, _ := strings.Cut(rest, "/")
	name, host, ok := strings.Cut(authority, "@")
	if !ok || name == "" || host == "" {
		return nil, &storage.Error{Op: "open", Path: url, Err: fmt.Errorf("no container or no account: %w", storage.ErrUnsupported),
			Hint: "write abfss://container@account.dfs.core.windows.net/path/to/table"}
	}
	account, suffix, _ := strings.Cut(host, ".")
	suffix = strings.TrimPrefix(strings.TrimPrefix(suffix, "dfs."), "blob.")
	if suffix == "" {
		suffix = publicSuffix
	}
	c := &client{load: sync.OnceValues(func() (*container.Client, error) { return connect(account, suffix, name, o) })}
	return object.New(c, object.Config{URL: scheme + "://" + authority, Bucket: name + " in account " + account, Prefix: prefix, MaxPut: maxPut})
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// connect finds the endpoint and the credentials: connection string, key, signature, then Azure's default chain.
func connect(account, suffix, name string, o Options) (*container.Client, error) {
	refuse := func(err error, hint string) (*container.Client, error) {
		return nil, &object.Failure{Kind: storage.ErrRefused, Err: err, Hint: hint}
	}
	parts := map[string]string{}
	for _, p := range strings.Split(first(o.ConnectionString, os.Getenv("AZURE_STORAGE_CONNECTION_STRING")), ";") {
		k, v, _ := strings.Cut(p, "=")
		parts[strings.ToLower(strings.TrimSpace(k))] = strings.TrimSpace(v)
	}
	for what, of := range map[string]string{"the connection string": parts["accountname"],
		"AZURE_STORAGE_ACCOUNT": os.Getenv("AZURE_STORAGE_ACCOUNT")} {
		if of != "" && of != account {
			return refuse(fmt.Errorf("%s is of account %s, the URL of %s", what, of, account),
				"name one account in both, or unset it to use the default credentials")
		}
	}
	if s := parts["endpointsuffix"]; s != "" {
		suffix = s
	}
	endpoint := first(o.Endpoint, parts["blobendpoint"], os.Getenv("AZURE_STORAGE_SERVICE_ENDPOINT"),
		"https://"+account+".blob."+suffix)
	url := strings.TrimSuffix(endpoint, "/") + "/" + name

	opts := &container.ClientOptions{ClientOptions: policy.ClientOptions{
		Retry:     policy.RetryOptions{MaxRetries: -1}, // none
		Transport: &http.Client{Transport: transport(o)},
	}}
	key := first(o.Key, parts["accountkey"], os.Getenv("AZURE_STORAGE_KEY"))
	sas := strings.TrimPrefix(first(o.SAS, parts["sharedaccesssignature"], os.Getenv("AZURE_STORAGE_SAS_TOKEN")), "?")
	var c *container.Client
	var err error
	switch {
	case key != "":
		cred, badKey := container.NewSharedKeyCredential(account, key)
		if badKey != nil {
			return refuse(errors.New("the account's key is not base64"), "check AZURE_STORAGE_KEY or the connection string")
		}
		c, err = container.NewClientWithSharedKeyCredential(url, cred, opts)
	case sas != "":
		c, err = container.NewClientWithNoCredential(url+"?"+sas, opts)
	default:
		var cred azcore.TokenCredential
		cred, err = azidentity.NewDefaultAzureCredential(nil)
		if err == nil {
			c, err = container.NewClient(url, cred, opts)
		}
	}
	if err != nil {
		return refuse(err, "check the URL and the AZURE_STORAGE_ settings")
	}
	return c, nil
}

func transport(o Options) http.RoundTripper {
	if o.Transport != nil {
		return o.Transport
	}
	return object.Transport()
}
