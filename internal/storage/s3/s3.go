// Package s3 is a storage.Store on Amazon S3 and what speaks its API.
//
// It owns the AWS SDK: configuration, requests, what S3's error codes mean. Everything that is not S3's own is in
// package object. It refuses to repeat requests (package retry does) and to use multipart uploads. It may import storage
// and object only.
//
// Invariant: nothing is looked up, on disk or in the network, before the first request.
package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"

	"tidemark/internal/storage"
	"tidemark/internal/storage/object"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
)

// Options override what the SDK's environment variables and files say. The zero value is right.
type Options struct {
	// Endpoint is the URL of an S3-compatible server. Defaults to AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile, then
	// Amazon's own.
	Endpoint string
	// Region is the bucket's. Defaults to AWS_REGION, the profile, then us-east-1.
	Region string
	// Profile of the shared configuration files. Defaults to AWS_PROFILE.
	Profile string
	// AccessKey, SecretKey and SessionToken are credentials given outright. Default to the SDK's chain: AWS_ACCESS_KEY_ID and its
	// fellows, the profile, web identity, container and machine roles.
	AccessKey, SecretKey, SessionToken string
	// PathStyle puts the bucket into the path, not the host name. Defaults to TIDEMARK_S3_PATH_STYLE (true or false), then
	// to true exactly where an endpoint is given.
	PathStyle *bool
	// Transport makes the HTTP requests, for tests. Defaults to one with the environment's proxies.
	Transport http.RoundTripper
}

const (
	// maxPut is S3's limit for one put.
	maxPut = 5 << 30
	// endpointSetting is what to look at when nothing answers.
	endpointSetting = "AWS_ENDPOINT_URL, AWS_REGION"
)

// New returns the store at bucket/prefix. It makes no request and reads no configuration yet.
func New(bucket, prefix string, o Options) (storage.Store, error) {
	c := &client{bucket: bucket, load: sync.OnceValues(func() (*sdk.Client, error) { return connect(o) })}
	return object.New(c, object.Config{URL: "s3://" + bucket, Bucket: bucket, Prefix: prefix, MaxPut: maxPut})
}

// connect reads the configuration. The context is not a caller's: what is read here serves all of them.
func connect(o Options) (*sdk.Client, error) {
	httpClient := awshttp.NewBuildableClient().WithTransportOptions(object.Limit).WithDialerOptions(object.LimitDialer)
	opts := []func(*config.LoadOptions) error{
		config.WithHTTPClient(httpClient),
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithLogger(logging.Nop{}),
	}
	if o.Profile != "" {
		opts = append(opts, config.WithSharedConfigProfile(o.Profile))
	}
	if o.AccessKey != "" {
		opts = append(opts, config.WithCredentialsProvider(aws.CredentialsProviderFunc(
			func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: o.AccessKey, SecretAccessKey: o.SecretKey, SessionToken: o.SessionToken,
					Source: "options"}, nil
			})))
	}
	if o.Region != "" {
		opts = append(opts, config.WithRegion(o.Region))
	}
	cfg, err := config.LoadDefaultConfig(context.Background(), opts...)
	if err != nil {
		return nil, &object.Failure{Kind: storage.ErrRefused, Err: err,
			Hint: "check AWS_PROFILE and the files in ~/.aws"}
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1" // a wrong guess is answered with the right one
	}
	if cfg.Credentials != nil {
		cfg.Credentials = &credentials{cfg.Credentials}
	}
	pathStyle := o.PathStyle
	if text := os.Getenv("TIDEMARK_S3_PATH_STYLE"); pathStyle == nil && text != "" {
		v, err := strconv.ParseBool(text)
		if err != nil {
			return nil, &object.Failure{Kind: storage.ErrRefused, Err: fmt.Errorf("TIDEMARK_S3_PATH_STYLE=%q", text),
				Hint: "set it to true or false"}
		}
		pathStyle = &v
	}
	return sdk.NewFromConfig(cfg, func(so *sdk.Options) {
		if o.Endpoint != "" {
			so.BaseEndpoint = aws.String(o.Endpoint)
		}
		so.UsePathStyle = so.BaseEndpoint != nil
		if pathStyle != nil {
			so.UsePathStyle = *pathStyle
		}
		if o.Transport != nil {
			so.HTTPClient = &http.Client{Transport: o.Transport}
		}
		so.DisableLogOutputChecksumValidationSkipped = true
	}), nil
}

// credentials marks the errors of the credential chain, which the SDK does not tell from those of a request.
type credentials struct{ aws.CredentialsProvider }

// Retrieve implements aws.CredentialsProvider.
func (c *credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	v, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil && ctx.Err() == nil {
		err = &credentialsError{err}
	}
	return v, err
}

type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }

func (e *credentialsError) Unwrap() error { return e.err }

// settle gives an SDK error its meaning.
func settle(ctx context.Context, err error) error {
	var cred *credentialsError
	var answer *awshttp.ResponseError
	var content *storage.ContentError
	switch {
	case errors.As(err, &content):
		return err
	case errors.As(err, &cred):
		return &object.Failure{Kind: storage.ErrRefused, Err: errors.New("no credentials: " + cred.Error()),
			Hint: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or run where a role gives credentials"}
	case !errors.As(err, &answer) || answer.Response == nil || answer.Response.Response == nil || answer.HTTPStatusCode() < 300:
		// Nothing came, or a good answer broke off.
		return object.NoAnswer(ctx, err, endpointSetting)
	}
	return fromAnswer(err, answer)
}
