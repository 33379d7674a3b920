package cosmoslease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

var kinds = []error{abstractions.ErrUnavailable, abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrClosed}

// answer is an error of azcosmos. Its text says everything at once.
func answer(code int, header http.Header) error {
	return fmt.Errorf("wrapped: %w", &azcore.ResponseError{
		StatusCode: code, ErrorCode: "404 NotFound 412 429 held lost denied",
		RawResponse: &http.Response{StatusCode: code, Header: header, Body: http.NoBody, Request: &http.Request{Method: http.MethodGet}},
	})
}

func means(t *testing.T, err, cause error, want ...error) {
	t.Helper()
	for _, kind := range kinds {
		require.Equal(t, slices.Contains(want, kind), errors.Is(err, kind), "%v: %v", cause, kind)
	}
	require.ErrorIs(t, err, cause, "the library's error stays in the chain")
}

// T27: status and substatus decide what an error means, never its text, and not
// every 404, 409 or 403 means the same.
func TestTrap_T27_StatusDecidesWhatAnErrorMeans(t *testing.T) {
	unavailable, throttled := []error{abstractions.ErrUnavailable}, []error{abstractions.ErrUnavailable, abstractions.ErrThrottled}
	setup, refusedIdentity := []error{abstractions.ErrNotSetUp}, []error{abstractions.ErrDenied}
	for _, test := range []struct {
		code, sub int
		meaning   meaning
		want      []error // nil where there is a meaning of its own
	}{
		{400, 0, misused, setup}, {400, 1001, misused, setup}, {401, 0, denied, refusedIdentity}, {401, 5000, denied, refusedIdentity},
		{403, 0, denied, refusedIdentity}, {403, 3, refused, throttled}, {403, 1008, refused, throttled}, {403, 1014, denied, refusedIdentity}, {403, 5300, denied, refusedIdentity},
		{404, 0, missing, nil}, {404, 1002, unknown, unavailable}, {404, 1003, noContainer, setup}, {404, 1024, unknown, unavailable}, {404, 9999, missing, nil},
		{408, 0, unknown, unavailable}, {409, 0, conflict, nil}, {409, 1, conflict, nil}, {410, 0, unknown, unavailable}, {410, 1002, unknown, unavailable},
		{412, 0, conflict, nil}, {413, 0, misused, setup}, {429, 0, refused, throttled}, {429, 3200, refused, throttled}, {429, 3201, refused, throttled},
		{449, 0, unknown, unavailable}, {500, 0, unknown, unavailable}, {502, 0, unknown, unavailable}, {503, 0, unknown, unavailable}, {503, 21005, unknown, unavailable},
		{504, 0, unknown, unavailable}, {418, 0, unknown, unavailable}, {200, 0, unknown, unavailable},
	} {
		err := answer(test.code, http.Header{"X-Ms-Substatus": {fmt.Sprint(test.sub)}})
		require.Equal(t, test.meaning, meaningOf(err), "%d/%d", test.code, test.sub)
		if test.want != nil {
			means(t, failure(err), err, test.want...)
		}
	}
}

func TestErrorsOfTheConnectionLeaveTheOutcomeUnknown(t *testing.T) {
	for _, cause := range []error{
		io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded, errors.New("409 Conflict"), errors.New("412"),
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}, &net.DNSError{Err: "no such host"},
	} {
		require.Equal(t, unknown, meaningOf(cause))
		means(t, failure(cause), cause, abstractions.ErrUnavailable)
	}
	require.NoError(t, failure(nil))
	gone := fmt.Errorf("wrapped: %w", context.Canceled)
	means(t, failure(gone), gone)
	for _, said := range []error{abstractions.ErrDenied, abstractions.ErrClosed, &abstractions.ThrottledError{}, fmt.Errorf("x: %w", abstractions.ErrUnavailable)} {
		require.Equal(t, said, failure(said), "once is enough")
	}
}

func TestRetryAfterIsReadInMilliseconds(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "1500": 1500 * time.Millisecond, "12.5": 12500 * time.Microsecond, "x": 0, "-1": 0, "99999999999": 0} {
		var throttled *abstractions.ThrottledError
		require.ErrorAs(t, failure(answer(429, http.Header{"X-Ms-Retry-After-Ms": {text}})), &throttled)
		require.Equal(t, want, throttled.RetryAfter, text)
	}
	require.Zero(t, retryAfter(errors.New("no answer")))
}

// What somebody else has put under a name is left alone, and said.
func TestADocumentThatIsNotOursIsLeftAlone(t *testing.T) {
	for name, body := range map[string]string{
		"no document of ours": `{"_etag": "x", "_ts": 1, "what": "ever"}`,
		"of a later version":  `{"_etag": "x", "_ts": 1, "v": 2, "name": "n"}`,
		"of another name":     `{"_etag": "x", "_ts": 1, "v": 1, "name": "m"}`,
		"without an etag":     `{"_ts": 1, "v": 1, "name": "n"}`,
		"of another shape":    `{"_etag": "x", "_ts": 1, "v": 1, "name": "n", "token": "7"}`,
	} {
		_, err := parse([]byte(body), "n")
		require.ErrorIs(t, err, abstractions.ErrNotSetUp, name)
	}
	s, err := parse([]byte(`{"_etag": "x", "_ts": 1, "v": 1, "name": "n", "token": 9007199254740991}`), "n")
	require.NoError(t, err)
	require.EqualValues(t, abstractions.MaxToken, s.doc.Token, "T65")
}

// Without the service's time nothing can be said of a lease.
func TestAReplyWithoutADateIsNoAnswer(t *testing.T) {
	for _, header := range []http.Header{nil, {}, {"Date": {"yesterday"}}} {
		_, err := dated(snapshot{}, header)
		requireUnknown(t, err)
	}
	s, err := dated(snapshot{}, http.Header{"Date": {"Tue, 14 Nov 2023 22:13:20 GMT"}})
	require.NoError(t, err)
	require.Equal(t, at(0), s.now)
}
