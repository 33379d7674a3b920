package httpfence

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
)

// Header fields.
const (
	// HeaderToken carries the token of a request, in decimal, and in a refusal the
	// refused token.
	HeaderToken = "Leasing-Token"
	// HeaderName carries the name of the token's lease, percent-encoded. It
	// is optional, and lets a server detect the token of another lease,
	// which it can't compare.
	HeaderName = "Leasing-Name"
	// HeaderSeen carries, in a refusal, the highest token that the resource has seen.
	HeaderSeen = "Leasing-Token-Seen"
)

// RequestToken returns the token of a request, for handlers that do the check
// themselves: for example with sqlfence.Table.Do in their own transaction. The error
// matches leasing.ErrInvalid.
func RequestToken(r *http.Request) (int64, error) {
	values := r.Header.Values(HeaderToken)
	if len(values) != 1 {
		return 0, &leasing.InvalidError{Field: HeaderToken, Value: strings.Join(values, ", "), Want: "one header field of that name, with the fencing token of your lease"}
	}
	token, err := fencing.ParseToken(values[0])
	if err != nil {
		return 0, &leasing.InvalidError{Field: HeaderToken, Value: values[0], Want: "decimal digits of a Lease.Token"}
	}
	return token, nil
}

// checkRequestName compares the lease name in a request with the expected name. If either is
// missing, there is nothing to compare.
func checkRequestName(r *http.Request, want string) error {
	values := r.Header.Values(HeaderName)
	if len(values) == 0 || want == "" {
		return nil
	}
	name, err := url.PathUnescape(values[0])
	if err != nil || len(values) > 1 || name != want {
		return &leasing.InvalidError{Field: HeaderName, Value: values[0], Want: "the name of the lease that protects the resource"}
	}
	return nil
}

// CheckResponse returns a *fencing.StaleError if the response is the refusal of a
// stale token by Handler, and nil for every other response: check the status as
// usual. The error's Resource is the host and path of the request. The body is
// not read; close the body in either case.
func CheckResponse(resp *http.Response) error {
	token, refused := headerToken(resp.Header, HeaderToken)
	seen, valid := headerToken(resp.Header, HeaderSeen)
	if resp.StatusCode != http.StatusPreconditionFailed || !refused || !valid {
		return nil // another precondition, such as the application's If-Match
	}
	resource := ""
	if resp.Request != nil && resp.Request.URL != nil {
		resource = resp.Request.URL.Host + resp.Request.URL.EscapedPath() // no query: it may hold secrets
	}
	return fencing.Check(resource, token, seen)
}

func headerToken(header http.Header, field string) (token int64, ok bool) {
	token, err := fencing.ParseToken(header.Get(field))
	return token, err == nil
}

// putHeader sets a header field, unless the field already has that value.
func putHeader(header http.Header, field, value string) error {
	values := header.Values(field)
	if len(values) == 0 {
		header.Set(field, value)
		return nil
	}
	if !slices.Equal(values, []string{value}) {
		return &leasing.InvalidError{Field: field, Value: strings.Join(values, ", "), Want: fmt.Sprintf("%s, as of the lease, or no such header field", value)}
	}
	return nil
}
