package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidemark/internal/storage/object"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"
)

// answers is an HTTP client that has one answer.
type answers struct {
	body io.Reader
}

func (a answers) Do(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(a.body), ContentLength: -1}, nil
}

// list is what the store sees of an answer, by the SDK's decoder alone or with ours.
func list(ctx context.Context, body io.Reader, options ...func(*sdk.Options)) (object.Page, error) {
	api := sdk.New(sdk.Options{HTTPClient: answers{body}, Region: "us-east-1", BaseEndpoint: aws.String("http://host"), UsePathStyle: true,
		Credentials: aws.AnonymousCredentials{}, Retryer: aws.NopRetryer{}}, options...)
	c := &client{bucket: "bucket", load: func() (*sdk.Client, error) { return api, nil }}
	return c.List(ctx, "dir/", "", 0)
}

func fast(o *sdk.Options) { o.APIOptions = append(o.APIOptions, listFast) }

// One file and one folder, as versitygw, moto and Amazon's page of the API write them.
var listings = []string{
	`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Prefix>dir/</Prefix><Delimiter>/</Delimiter>` +
		`<MaxKeys>1000</MaxKeys><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated><NextContinuationToken>dir/a&amp;b</NextContinuationToken>` +
		`<Contents><ChecksumAlgorithm></ChecksumAlgorithm><ChecksumType></ChecksumType><ETag>&#34;d41d8cd98f00b204e9800998ecf8427e&#34;</ETag><Key>dir/a&amp;b &lt;c&gt; é</Key>` +
		`<LastModified>2026-11-30T15:00:00.123Z</LastModified><Size>3600</Size><StorageClass>STANDARD</StorageClass></Contents>` +
		`<CommonPrefixes><Prefix>dir/sub/</Prefix></CommonPrefixes><EncodingType></EncodingType></ListBucketResult>`,
	`<?xml version='1.0' encoding='utf-8'?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>bucket</Name>
  <Prefix>dir/</Prefix>
  <MaxKeys>1000</MaxKeys>
  <KeyCount>1</KeyCount>
  <Delimiter/>
  <IsTruncated>false</IsTruncated>
  <Contents>
    <Key>dir/x</Key>
    <LastModified>2026-11-30T15:00:00.000Z</LastModified>
    <ETag>"x"</ETag>
    <Size>0</Size>
    <StorageClass>STANDARD</StorageClass>
    <Owner><ID>7</ID><DisplayName>one</DisplayName></Owner>
  </Contents>
</ListBucketResult>
`,
	`<ListBucketResult><Contents><Key>a</Key><ETag>&quot;1&quot;</ETag><Size>1</Size><LastModified>2009-10-12T17:50:30.000Z</LastModified></Contents></ListBucketResult>`,
	`<ListBucketResult></ListBucketResult>`,
}

// What is decoded here is what the SDK decodes; what is not, the SDK is asked for.
func TestListingsAreThoseOfTheSDK(t *testing.T) {
	t.Parallel()
	for n, body := range listings {
		page, err := list(t.Context(), strings.NewReader(body), fast)
		want, sdkErr := list(t.Context(), strings.NewReader(body))
		if err != nil || sdkErr != nil || !cmp.Equal(page, want) {
			t.Errorf("listing %d: %v, %v, %s", n, err, sdkErr, cmp.Diff(want, page))
		}
		if parseListing([]byte(body)) == nil && n != 1 { // the one in single quotes is left to the SDK
			t.Errorf("listing %d is left to the SDK", n)
		}
		for cut := range len(strings.TrimSpace(body)) { // a listing that breaks off never passes for a whole one
			if parseListing([]byte(body[:cut])) != nil {
				t.Fatalf("listing %d is taken for whole after %d bytes", n, cut)
			}
		}
	}
	for _, other := range []string{
		strings.Replace(listings[2], "<Key>a<", "<Key><b/>a<", 1), strings.Replace(listings[2], "Contents>", "contents>", 2),
		strings.Replace(listings[2], "<Contents>", "<EncodingType>url</EncodingType><Contents>", 1), strings.Replace(listings[2], "<Contents>", "<!-- x --><Contents>", 1),
		strings.Replace(listings[2], "<Key>a<", "<Key><![CDATA[a]]><", 1), strings.Replace(listings[2], "<Key>a<", "<Key>&#x61;<", 1),
		strings.Replace(listings[2], "<Key>", `<Key x="1">`, 1), strings.Replace(listings[2], "Size>1", "Size>one", 1), listings[2] + "x", "", "<Error/>",
	} {
		page, err := list(t.Context(), strings.NewReader(other), fast)
		want, sdkErr := list(t.Context(), strings.NewReader(other))
		if (err == nil) != (sdkErr == nil) || !cmp.Equal(page, want) {
			t.Errorf("%s: %v, the SDK: %v %s", other, err, sdkErr, cmp.Diff(want, page))
		}
	}
	lost := errors.New("connection lost")
	if page, err := list(t.Context(), io.MultiReader(strings.NewReader(listings[0][:400]), broken{lost}), fast); err == nil {
		t.Errorf("an answer that breaks off: %+v", page)
	}
}

func FuzzListing(f *testing.F) {
	for _, body := range listings {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if parseListing(body) == nil {
			return
		}
		page, err := list(t.Context(), bytes.NewReader(body), fast)
		want, sdkErr := list(t.Context(), bytes.NewReader(body))
		if err != nil || sdkErr != nil || !cmp.Equal(page, want) {
			t.Errorf("%q: %v, %v %s", body, err, sdkErr, cmp.Diff(want, page))
		}
	})
}

func BenchmarkListing(b *testing.B) {
	var body strings.Builder
	body.WriteString("<ListBucketResult>")
	for n := range 60 {
		fmt.Fprintf(&body, "<Contents><Key>dir/%d</Key><LastModified>%s</LastModified><ETag>&#34;%032d&#34;</ETag><Size>%d</Size><StorageClass>STANDARD</StorageClass></Contents>",
			n, time.Unix(int64(n), 0).UTC().Format(time.RFC3339), n, n)
	}
	body.WriteString("</ListBucketResult>")
	for name, options := range map[string][]func(*sdk.Options){"sdk": nil, "fast": {fast}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := list(b.Context(), strings.NewReader(body.String()), options...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
