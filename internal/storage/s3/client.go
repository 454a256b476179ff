package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"tidemark/internal/storage"
	"tidemark/internal/storage/object"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
)

// client is an object.Client on one bucket.
type client struct {
	bucket string
	load   func() (*sdk.Client, error) // once
}

var _ object.Client = (*client)(nil)

// Get implements object.Client.
func (c *client) Get(ctx context.Context, key string, off, n int64) (object.Body, error) {
	api, err := c.load()
	if err != nil {
		return object.Body{}, err
	}
	in := &sdk.GetObjectInput{Bucket: &c.bucket, Key: &key}
	if n >= 0 {
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	}
	out, err := api.GetObject(ctx, in)
	if err != nil {
		return object.Body{}, settle(ctx, err)
	}
	body := object.Body{ReadCloser: out.Body, Len: -1,
		Attr: object.Attr{Key: key, ModTime: aws.ToTime(out.LastModified), Tag: aws.ToString(out.ETag)}}
	if out.ContentLength != nil {
		body.Len, body.Size = *out.ContentLength, *out.ContentLength
	}
	if n >= 0 && out.ContentRange == nil {
		out.Body.Close()
		return object.Body{}, &object.Failure{Kind: storage.ErrUnsupported, Err: errors.New("the server ignores ranges")}
	}
	if n >= 0 {
		body.Size = object.RangeSize(*out.ContentRange)
	}
	return body, nil
}

// Head implements object.Client.
func (c *client) Head(ctx context.Context, key string) (object.Attr, error) {
	api, err := c.load()
	if err != nil {
		return object.Attr{}, err
	}
	in := &sdk.HeadObjectInput{Bucket: &c.bucket, Key: &key}
	out, err := api.HeadObject(ctx, in)
	if err != nil {
		refused := settle(ctx, err)
		var f *object.Failure
		if !errors.As(refused, &f) || f.Status != 301 && f.Status != 400 && f.Status != 403 {
			return object.Attr{}, refused
		}
		// The answer to HEAD has no body that could say why; that to a listing has. If that is let through, the SDK may have
		// learnt the server's clock from the refusal.
		if _, said := c.List(ctx, key, "", 1); said != nil {
			return object.Attr{}, said
		}
		if out, err = api.HeadObject(ctx, in); err != nil {
			return object.Attr{}, settle(ctx, err)
		}
	}
	return object.Attr{Key: key, Size: aws.ToInt64(out.ContentLength), ModTime: aws.ToTime(out.LastModified),
		Tag: aws.ToString(out.ETag)}, nil
}

// List implements object.Client.
func (c *client) List(ctx context.Context, prefix, token string, limit int) (object.Page, error) {
	api, err := c.load()
	if err != nil {
		return object.Page{}, err
	}
	in := &sdk.ListObjectsV2Input{Bucket: &c.bucket, Prefix: &prefix, Delimiter: aws.String("/")}
	if token != "" {
		in.ContinuationToken = &token
	}
	if limit > 0 {
		in.MaxKeys = aws.Int32(int32(limit))
	}
	out, err := api.ListObjectsV2(ctx, in)
	if err != nil {
		return object.Page{}, settle(ctx, err)
	}
	var page object.Page
	for _, o := range out.Contents {
		page.Objects = append(page.Objects, object.Attr{Key: aws.ToString(o.Key), Size: aws.ToInt64(o.Size),
			ModTime: aws.ToTime(o.LastModified), Tag: aws.ToString(o.ETag)})
	}
	for _, p := range out.CommonPrefixes {
		page.Prefixes = append(page.Prefixes, aws.ToString(p.Prefix))
	}
	if aws.ToBool(out.IsTruncated) {
		page.Next = aws.ToString(out.NextContinuationToken)
	}
	return page, nil
}

// Put implements object.Client. The time is the answer's, since S3 does not say the object's: at most a second or two later.
func (c *client) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, tag string) (object.Attr, error) {
	api, err := c.load()
	if err != nil {
		return object.Attr{}, err
	}
	in := &sdk.PutObjectInput{Bucket: &c.bucket, Key: &key, Body: body, ContentLength: &size}
	if tag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &tag
	}
	out, err := api.PutObject(ctx, in)
	if err != nil {
		return object.Attr{}, settle(ctx, err)
	}
	a := object.Attr{Key: key, Size: size, Tag: aws.ToString(out.ETag)}
	if at, ok := awsmiddleware.GetServerTime(out.ResultMetadata); ok {
		a.ModTime = at
		return a, nil
	}
	return c.Head(ctx, key)
}

// Delete implements object.Client.
func (c *client) Delete(ctx context.Context, key string) error {
	api, err := c.load()
	if err != nil {
		return err
	}
	_, err = api.DeleteObject(ctx, &sdk.DeleteObjectInput{Bucket: &c.bucket, Key: &key})
	if err == nil {
		return nil
	}
	if err = settle(ctx, err); errors.Is(err, storage.ErrNotFound) {
		return nil // some servers say so; S3 does not
	}
	return err
}

// fromAnswer says what an error answer of S3 means.
func fromAnswer(err error, answer *awshttp.ResponseError) *object.Failure {
	status, code := answer.HTTPStatusCode(), ""
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	f := object.FromStatus(status, code, answer.ServiceRequestID())
	switch code {
	case "NoSuchBucket":
		f.Kind = object.ErrNoBucket
	case "ConditionalRequestConflict", "OperationAborted": // another write was under way: nothing was done
		f.Kind, f.Again = nil, time.Minute
	case "SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests", "ServiceUnavailable",
		"BandwidthLimitExceeded":
		return f.Throttled()
	case "RequestTimeTooSkewed": // the SDK learns the difference and signs the next request with it
		f.Again = 10 * time.Second
		f.Hint = "this machine's clock is wrong by more than 15 minutes: set it"
	case "RequestTimeout":
		f.Kind, f.Again = nil, time.Minute
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		f.Kind, f.Hint = storage.ErrRefused, "the credentials are wrong or expired"
	case "InvalidObjectState":
		f.Kind, f.Hint = storage.ErrRefused, "the object is in an archive: restore it there first"
	case "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded":
		f.Kind, f.Again, f.Hint = nil, 0, "free space or raise the quota, then run the same command again; nothing is lost"
	case "EntityTooLarge":
		f.Kind = storage.ErrUnsupported
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException", "TemporaryRedirect":
		f = wrongRegion(f, answer)
	default:
		if status == 301 || status == 307 || status == 400 && answer.Response.Header.Get("X-Amz-Bucket-Region") != "" {
			f = wrongRegion(f, answer)
		}
	}
	if api != nil && f.Err == nil && api.ErrorMessage() != "" && status != 412 && status != 404 {
		f.Err = errors.New(api.ErrorMessage())
	}
	return f
}

func wrongRegion(f *object.Failure, answer *awshttp.ResponseError) *object.Failure {
	f.Kind, f.Again = storage.ErrRefused, 0
	f.Hint = "the bucket is in another region: set AWS_REGION to it"
	if region := answer.Response.Header.Get("X-Amz-Bucket-Region"); region != "" {
		f.Hint = "the bucket is in another region: set AWS_REGION=" + region
	}
	return f
}
