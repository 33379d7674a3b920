package s3lease

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// answerChecker is the HTTP client of all requests. It returns answers from the store, and
// turns every other answer into an error, after which the outcome of the request is unknown.
//
// An answer counts as the store's if it has the form that belongs to the request:
//
//   - a write has an ETag and no body (docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html);
//   - a read has ETag, Last-Modified and Date (…/API_GetObject.html);
//   - a list is a ListBucketResult with the request's prefix (…/API_ListObjectsV2.html);
//   - a refusal is an XML document Error with a Code (…/ErrorResponses.html).
//
// If each answer to Open's requests has an ID, as answers from S3 and from both test servers do
// (docs.aws.amazon.com/AmazonS3/latest/userguide/get-request-ids.html), an answer without an ID is
// never the store's.
type answerChecker struct {
	next      httpguard.Doer
	ids       bool        // the store's answers have IDs; Open alone sets it
	idMissing atomic.Bool // an answer had no ID
}

const requestID = "X-Amz-Request-Id"

// Do sends a request once.
func (a *answerChecker) Do(req *http.Request) (*http.Response, error) {
	response, err := a.next.Do(req)
	if redirect, ok := errors.AsType[*httpguard.RedirectError](err); ok && codeOf(redirect.Body) != "" {
		// S3 answers in this form if a bucket is in another region.
		response, err = &http.Response{
			StatusCode: redirect.Status, Header: redirect.Header, Body: io.NopCloser(bytes.NewReader(redirect.Body)), Request: req,
		}, nil
	}
	if err != nil {
		return nil, err
	}
	if !a.isOwn(req, response) {
		return nil, httpguard.Foreign("the store", response, httpguard.Body(response))
	}
	return response, nil
}

func (a *answerChecker) isOwn(req *http.Request, response *http.Response) bool {
	header, body := response.Header, httpguard.Body(response)
	if header.Get(requestID) == "" {
		if a.ids {
			return false
		}
		a.idMissing.Store(true)
	}
	switch {
	case response.StatusCode/100 == 3:
		return true // Do has checked the code
	case response.StatusCode/100 != 2:
		return codeOf(body) != ""
	case req.Method == http.MethodPut:
		return isETag(header) && len(body) == 0
	case strings.Contains(req.URL.RawQuery, "list-type="):
		var list struct {
			XMLName xml.Name `xml:"ListBucketResult"`
			Name    string
			Prefix  string
		}
		return xml.Unmarshal(body, &list) == nil && list.Name != "" && list.Prefix == req.URL.Query().Get("prefix")
	}
	_, undated := httpguard.Date(header)
	_, unwritten := http.ParseTime(header.Get("Last-Modified"))
	return isETag(header) && undated == nil && unwritten == nil
}

// isETag reports whether an answer has an ETag of S3's form. A weak ETag comes from a
// proxy that has changed the body, and no store accepts it as a condition.
func isETag(header http.Header) bool {
	etag := header.Get("ETag")
	return etag != "" && !strings.HasPrefix(etag, "W/")
}

// codeOf returns the code of a refusal, or "" if the body is not a refusal in S3's form.
func codeOf(body []byte) string {
	var refusal struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
	}
	if xml.Unmarshal(body, &refusal) != nil {
		return ""
	}
	return refusal.Code
}
