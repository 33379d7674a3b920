package bloblease

import (
	"net/http"
	"strings"

	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// answerChecker is the transporter of all requests. It returns answers from the service, and turns
// every other answer into an error that leaves the outcome of the request unknown.
type answerChecker struct{ *httpguard.Client }

// Do sends a request once.
func (a answerChecker) Do(req *http.Request) (*http.Response, error) {
	response, err := a.Client.Do(req)
	if err != nil {
		return nil, err
	}
	if !isOwn(req, response) {
		return nil, httpguard.Foreign("the Blob service", response, httpguard.Body(response))
	}
	return response, nil
}

// isOwn reports whether an answer comes from the service. Each answer from the service has
// x-ms-request-id. A refusal also has x-ms-error-code, with or without a body
// (learn.microsoft.com/rest/api/storageservices/status-and-error-codes2). A success has x-ms-version
// and the headers that learn.microsoft.com/rest/api/storageservices/operations-on-blobs lists for
// the operation: an ETag, the state of a lease, the ID of a lease.
func isOwn(req *http.Request, response *http.Response) bool {
	header := response.Header
	switch {
	case header.Get("x-ms-request-id") == "":
		return false
	case response.StatusCode/100 != 2:
		return header.Get("x-ms-error-code") != ""
	case header.Get("x-ms-version") == "":
		return false
	case req.Method == http.MethodHead:
		return header.Get("ETag") != "" && header.Get("x-ms-lease-state") != ""
	case req.Method != http.MethodPut:
		return true // a list, a deletion
	}
	return header.Get("ETag") != "" && isOfLease(req.Header, header)
}

// isOfLease reports whether the answer to a lease operation names the lease of the request.
// The answers to a release and a break have no ID
// (learn.microsoft.com/rest/api/storageservices/lease-blob, Response headers).
func isOfLease(sent, got http.Header) bool {
	switch value(sent, "x-ms-lease-action") {
	case "acquire":
		return strings.EqualFold(value(sent, "x-ms-proposed-lease-id"), got.Get("x-ms-lease-id"))
	case "renew":
		return strings.EqualFold(value(sent, "x-ms-lease-id"), got.Get("x-ms-lease-id"))
	case "break":
		return got.Get("x-ms-lease-time") != ""
	}
	return true
}

// value returns a header that azblob has set. azblob writes some names in lower case.
func value(sent http.Header, name string) string {
	if values := sent[name]; len(values) > 0 {
		return values[0]
	}
	return sent.Get(name)
}
