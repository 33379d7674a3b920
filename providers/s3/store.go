package s3lease

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// store is a bucket as a cas.Store. The version of an object is its ETag.
type store struct {
	client   *s3.Client
	sources  sources
	bucket   string
	naming   cas.Naming
	torn     bool // replies may combine several reads
	unquoted bool // the store requires ETags without quotes; Open alone sets it
	checker  *answerChecker
}

// configure makes the SDK send one attempt, without the checksums that some stores don't
// support, and refuse answers that are not the store's.
func (s *store) configure(o *s3.Options) {
	o.HTTPClient = s.checker
	o.Credentials, o.ExpressCredentials = s.sources.keys, s.sources.express
	o.Retryer = aws.NopRetryer{}
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
}

// maxRecord exceeds the size of every record: a longer object is not a record.
const maxRecord = 1 << 20

// Get reads an object.
func (s *store) Get(ctx context.Context, key string) (cas.Item, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key}, s.configure)
	if classOf(err) == missing {
		_, _, header := answerOf(err)
		now, err := httpguard.Date(header)
		return cas.Item{Key: key, Now: now}, err
	}
	if err != nil {
		return cas.Item{}, err
	}
	defer func() { _ = out.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(out.Body, maxRecord))
	item := cas.Item{Key: key, Data: data, Version: aws.ToString(out.ETag), Written: aws.ToTime(out.LastModified)}
	if err == nil {
		response := awsmiddleware.GetRawResponse(out.ResultMetadata).(*smithyhttp.Response)
		item.Now, err = httpguard.Date(response.Header)
	}
	return item, err
}

// Put creates an object, or replaces the object if a second read returns the state of
// the first read.
func (s *store) Put(ctx context.Context, old cas.Item, _ *providerkit.Record, data []byte) (cas.Item, error) {
	if s.torn && old.Version != "" && !old.Now.IsZero() {
		again, err := s.Get(ctx, old.Key)
		if err != nil {
			return cas.Item{}, err
		}
		if again.Version != old.Version || !again.Written.Equal(old.Written) || !bytes.Equal(again.Data, old.Data) {
			return cas.Item{}, cas.ErrConflict
		}
	}
	in := &s3.PutObjectInput{Bucket: &s.bucket, Key: &old.Key, Body: bytes.NewReader(data), ContentType: aws.String("application/json")}
	switch {
	case old.Version == "":
		in.IfNoneMatch = aws.String("*")
	case s.unquoted:
		in.IfMatch = aws.String(strings.Trim(old.Version, `"`))
	default:
		in.IfMatch = &old.Version
	}
	out, err := s.client.PutObject(ctx, in, s.configure)
	switch class := classOf(err); {
	case class == conflict, class == missing:
		return cas.Item{}, cas.ErrConflict
	case err != nil:
		return cas.Item{}, err
	}
	return cas.Item{Key: old.Key, Data: data, Version: aws.ToString(out.ETag)}, nil
}

// Delete does nothing: see the package documentation.
func (s *store) Delete(context.Context, cas.Item) error { return abstractions.ErrUnsupported }

const (
	maxPage = 100 // objects in a page, each of which needs a read
	readers = 8   // concurrent reads of objects
)

// List lists the keys after q.After, and reads their objects.
func (s *store) List(ctx context.Context, q cas.ListQuery) (items []cas.Item, next string, err error) {
	in := &s3.ListObjectsV2Input{
		Bucket: &s.bucket, Prefix: aws.String(s.naming.EncodePrefix(q.Prefix)), MaxKeys: aws.Int32(int32(min(q.Limit, maxPage))),
	}
	if q.After != "" {
		in.StartAfter = &q.After
	}
	page, err := s.client.ListObjectsV2(ctx, in, s.configure)
	if err != nil {
		return nil, "", err
	}
	items = make([]cas.Item, len(page.Contents))
	failed := make([]error, len(items))
	var reading providerkit.Group
	for first := range min(readers, len(items)) {
		reading.Go(func() error {
			for i := first; i < len(items); i += readers {
				items[i], failed[i] = s.Get(ctx, aws.ToString(page.Contents[i].Key))
			}
			return nil
		}, func(err error) { failed[first] = errors.Join(failed[first], err) })
	}
	reading.Wait()
	if len(items) > 0 && aws.ToBool(page.IsTruncated) {
		next = items[len(items)-1].Key
	}
	return items, next, errors.Join(failed...)
}
