package s3lease

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// T184: throttling, expired credentials, a wrong time and an incomplete body are reported as temporary, not as final.
func TestTrap_T184_WhatAnswersMean(t *testing.T) {
	p, w := openProbed(t)
	for _, c := range []struct {
		status int
		code   string
		want   error
		undone bool // the request was certainly not applied
	}{
		{301, "PermanentRedirect", abstractions.ErrNotSetUp, true},
		{400, "AuthorizationHeaderMalformed", abstractions.ErrNotSetUp, true},
		{400, "BadDigest", abstractions.ErrUnavailable, true},
		{400, "ExpiredToken", abstractions.ErrUnavailable, true},
		{400, "IncompleteBody", abstractions.ErrUnavailable, true},
		{400, "InvalidToken", abstractions.ErrDenied, true},
		{400, "KMS.ThrottlingException", abstractions.ErrThrottled, true},
		{400, "RequestExpired", abstractions.ErrUnavailable, true},
		{400, "Throttling", abstractions.ErrThrottled, true},
		{400, "ThrottlingException", abstractions.ErrThrottled, true},
		{400, "TokenRefreshRequired", abstractions.ErrUnavailable, true},
		{400, "XAmzContentSHA256Mismatch", abstractions.ErrUnavailable, true},
		{400, "RequestTimeout", abstractions.ErrUnavailable, false},
		{403, "AccessDenied", abstractions.ErrDenied, true},
		{403, "RequestTimeTooSkewed", abstractions.ErrUnavailable, true},
		{403, "SignatureDoesNotMatch", abstractions.ErrDenied, true},
		{404, "NoSuchBucket", abstractions.ErrNotSetUp, true},
		{405, "MethodNotAllowed", abstractions.ErrNotSetUp, true},
		{429, "TooManyRequests", abstractions.ErrThrottled, true},
		{500, "InternalError", abstractions.ErrUnavailable, false},
		{501, "NotImplemented", abstractions.ErrNotSetUp, true},
		{503, "SlowDown", abstractions.ErrThrottled, true},
		{503, "ServiceUnavailable", abstractions.ErrUnavailable, false},
	} {
		*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
			return answer(req, c.status, c.code), nil
		}
		_, err := p.Acquire(t.Context(), acquireRequest("a", time.Minute))
		require.ErrorIs(t, err, c.want, c.code)
		for _, final := range []error{abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrThrottled} {
			require.Equal(t, errors.Is(c.want, final), errors.Is(err, final), "%s: %v", c.code, err)
		}
		require.Equal(t, c.undone, abstractions.NotApplied(err), c.code)
	}
}

func TestTrap_T71_WhatWasNotSentIsDefinite(t *testing.T) {
	p, w := openProbed(t)
	faulttest.WhatWasNotSentIsDefinite(t, func(addr string) abstractions.Provider {
		return openUnprobed(t, Options{Bucket: "b", Endpoint: "http://" + addr, AccessKey: "k", SecretKey: providerkit.NewSecret("s")})
	}, p, w)
}

// Without the store's time, the state of a lease is unknown.
func TestAReplyWithoutADateIsNoAnswer(t *testing.T) {
	p, w := openProbed(t)
	*w = func(req *http.Request, send faulttest.Sender) (*http.Response, error) {
		response, err := send(req)
		if err == nil {
			response.Header.Del("Date")
		}
		return response, err
	}
	_, err := p.Acquire(t.Context(), acquireRequest("a", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
}
