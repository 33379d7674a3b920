package bloblease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/stretchr/testify/require"
)

var sentinels = []error{
	abstractions.ErrUnavailable, abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrClosed, abstractions.ErrInvalid, abstractions.ErrHeld, abstractions.ErrLost,
}

// answerError returns the library's error for an answer.
func answerError(status int, code string, headers ...string) error {
	request, _ := http.NewRequestWithContext(context.Background(), http.MethodPut, "https://account.blob.core.windows.net/leases/n?sig=s3cret", http.NoBody)
	answer := newAnswer(request, status, append(headers, "x-ms-error-code", code)...) //nolint:bodyclose // it has no body
	return runtime.NewResponseErrorWithErrorCode(answer, code)
}

// requireMeaning checks the sentinels of an error, and that its chain has the cause.
func requireMeaning(t *testing.T, err, cause error, want ...error) {
	t.Helper()
	for _, sentinel := range sentinels {
		require.Equal(t, slices.Contains(want, sentinel), errors.Is(err, sentinel), "%v: %v", cause, sentinel)
	}
	require.ErrorIs(t, err, cause, "the library's error stays in the chain")
}

// convertError converts an error from the client library to the error that callers get.
func convertError(t testing.TB, err error) error {
	p := (&driver{store: &store{}, idle: func() {}}).provider(time.Second)
	defer func() { require.NoError(t, p.Close()) }()
	return providerkit.Call(t.Context(), p.shell, "test", "", func(context.Context) error { return err })
}

// T27: code and status decide the meaning of an answer, never its text.
func TestTrap_T27_BlobCodeDecidesWhatAnErrorMeans(t *testing.T) {
	throttled := []error{abstractions.ErrUnavailable, abstractions.ErrThrottled}
	listed := map[bloberror.Code]bool{}
	for _, test := range []struct {
		status  int
		codes   []bloberror.Code
		want    []error
		changed bool
	}{
		{409, []bloberror.Code{
			"BlobAlreadyExists", "LeaseAlreadyBroken", "LeaseAlreadyPresent", "LeaseIdMismatchWithBlobOperation", "LeaseIdMismatchWithLeaseOperation",
			"LeaseIsBreakingAndCannotBeAcquired", "LeaseIsBreakingAndCannotBeChanged", "LeaseIsBrokenAndCannotBeRenewed", "LeaseNotPresentWithLeaseOperation",
		}, []error{abstractions.ErrUnavailable}, true},
		{412, []bloberror.Code{"ConditionNotMet", "TargetConditionNotMet", "LeaseIdMissing", "LeaseLost", "LeaseNotPresentWithBlobOperation", "Something"}, []error{abstractions.ErrUnavailable}, true},
		{404, []bloberror.Code{"BlobNotFound", "SoftDeletedBlobNotFound"}, []error{abstractions.ErrUnavailable}, true},
		{503, []bloberror.Code{"ServerBusy"}, throttled, false},
		{429, []bloberror.Code{"Something", "TooManyRequests"}, throttled, false},
		{409, []bloberror.Code{"AccountIsDisabled"}, []error{abstractions.ErrDenied}, false},
		{403, []bloberror.Code{
			"AccountIsDisabled", "UnauthorizedBlobOverwrite", "AuthenticationFailed", "AuthorizationFailure", "AuthorizationPermissionMismatch", "InsufficientAccountPermissions",
			"AuthorizationProtocolMismatch", "AuthorizationSourceIPMismatch", "AuthorizationResourceTypeMismatch", "AuthorizationServiceMismatch", "KeyBasedAuthenticationNotPermitted",
		}, []error{abstractions.ErrDenied}, false},
		{401, []bloberror.Code{"NoAuthenticationInformation", "InvalidAuthenticationInfo"}, []error{abstractions.ErrDenied}, false},
		{404, []bloberror.Code{"ContainerNotFound"}, []error{abstractions.ErrNotSetUp}, false},
		{409, []bloberror.Code{
			"ContainerBeingDeleted", "ContainerDisabled", "BlobArchived", "BlobBeingRehydrated", "BlobImmutableDueToPolicy", "BlobUsesCustomerSpecifiedEncryption",
			"FeatureVersionMismatch", "InvalidBlobType", "OperationNotAllowedOnIncrementalCopyBlob", "OperationNotAllowedOnRootBlob", "ResourceTypeMismatch",
		}, []error{abstractions.ErrNotSetUp}, false},
		{400, []bloberror.Code{"InvalidHeaderValue", "InvalidInput"}, []error{abstractions.ErrNotSetUp}, false},
		{409, []bloberror.Code{"SnapshotsPresent", "PendingCopyOperation", "Something"}, []error{abstractions.ErrUnavailable}, false},
		{404, []bloberror.Code{"ResourceNotFound"}, []error{abstractions.ErrUnavailable}, false},
		{500, []bloberror.Code{"InternalError", "OperationTimedOut"}, []error{abstractions.ErrUnavailable}, false},
		{503, []bloberror.Code{"Something"}, []error{abstractions.ErrUnavailable}, false},
	} {
		for _, code := range test.codes {
			listed[code] = true
			cause := answerError(test.status, string(code), "x-text", "ServerBusy denied held lost")
			for _, err := range []error{cause, fmt.Errorf("wrapped: %w", cause)} {
				requireMeaning(t, convertError(t, err), cause, test.want...)
				require.Equal(t, test.changed, errors.Is((&store{}).failure(err), cas.ErrConflict), "%d %s", test.status, code)
				require.NotContains(t, convertError(t, err).Error(), "s3cret")
				require.Contains(t, convertError(t, err).Error(), fmt.Sprint(test.status))
			}
		}
	}
	for _, status := range []int{301, 400, 401, 403, 404, 408, 409, 412, 429, 500, 502, 503, 504} { // T116
		cause := answerError(status, "")
		requireMeaning(t, convertError(t, cause), cause, abstractions.ErrUnavailable)
		require.False(t, abstractions.NotApplied(convertError(t, cause)), status)
	}
	for code := range maps.Keys(codes) {
		require.True(t, listed[code], "%s is not tested here", code)
	}
}

// T183: an error has the service's own sentences, except those that quote a signature or the signed text. For an answer to
// HEAD, which has no body, the error has the advice for its code.
func TestTrap_T183_TheServicesOwnSentences(t *testing.T) {
	const form = `<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>%s
RequestId:1-2
Time:2026-11-27T00:00:00Z</Message>%s</Error>`
	const failed = "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature."
	const mac = "8Rv0jPUy7Ee1Vv7s7pYvZ4sYkq3VJ4cWb0n2l1xQx9A="
	for _, c := range []struct {
		status              int
		code, message, more string
		shown, advised      string
	}{
		{403, "AuthorizationFailure", "This request is not authorized to perform this operation.", "", "not authorized to perform this operation", "firewall"},
		{403, "AuthorizationPermissionMismatch", "This request is not authorized to perform this operation using this permission.", "", "using this permission", "Storage Blob Data Contributor"},
		{403, "AuthenticationFailed", failed, "<AuthenticationErrorDetail>Request date header too old: 'Fri, 27 Nov 2026 00:00:00 GMT'</AuthenticationErrorDetail>", "date header too old", "clock is off"},
		{403, "AuthenticationFailed", failed, "<AuthenticationErrorDetail>Signature not valid in the specified time frame: Start [Mon] - Expiry [Tue] - Current [Wed]</AuthenticationErrorDetail>", "Expiry [Tue]", "has expired"},
		{403, "AuthenticationFailed", failed, "<AuthenticationErrorDetail>The MAC signature found in the HTTP request '" + mac + "' is not the same as any computed signature. Server used following string to sign: 'PUT\n\nx-ms-date:s3cret'.</AuthenticationErrorDetail>", "failed to authenticate", ""},
		{403, "AuthenticationFailed", failed, "<AuthenticationErrorDetail>Signature did not match. String to sign used was s3cret\nrw</AuthenticationErrorDetail>", "Signature did not match", ""},
		{400, "InvalidHeaderValue", "The API version 2026-02-06 is not supported by Azurite.", "<HeaderName>x-ms-version</HeaderName><HeaderValue>s3cret</HeaderValue>", "(header x-ms-version)", "--skipApiVersionCheck"},
		{403, "KeyBasedAuthenticationNotPermitted", "Key based authentication is not permitted on this storage account.", "", "Key based", "Options.Auth"},
	} {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://account.blob.core.windows.net/leases/n?sig=s3cret", http.NoBody)
		request.Header.Set("Authorization", "SharedKey account:"+mac)
		for method, body := range map[string]string{http.MethodPut: fmt.Sprintf(form, c.code, c.message, c.more), http.MethodHead: ""} {
			request.Method = method
			answer := newAnswer(request, c.status, "x-ms-error-code", c.code, "x-ms-request-id", "1-2") //nolint:bodyclose // it is in memory
			answer.Body = io.NopCloser(strings.NewReader(body))
			text := convertError(t, runtime.NewResponseErrorWithErrorCode(answer, c.code)).Error()
			if body != "" {
				require.Contains(t, text, c.shown)
			}
			require.Contains(t, text, c.advised)
			for _, secret := range []string{"s3cret", mac, mac[:20], "\n", "string to sign"} {
				require.NotContains(t, text, secret)
			}
			require.Less(t, len(text), 900)
		}
	}
}

func TestBlobErrorsOfTheConnectionLeaveTheOutcomeUnknown(t *testing.T) {
	for _, cause := range []error{
		io.EOF, io.ErrUnexpectedEOF, os.ErrDeadlineExceeded, context.DeadlineExceeded, errors.New("LeaseAlreadyPresent"),
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}, &net.DNSError{Err: "no such host"},
	} {
		requireMeaning(t, convertError(t, cause), cause, abstractions.ErrUnavailable)
		quoting := &url.Error{Op: "Put", URL: "https://account/leases?sig=s3cret", Err: cause}
		requireMeaning(t, convertError(t, quoting), cause, abstractions.ErrUnavailable)
		require.NotContains(t, convertError(t, quoting).Error(), "s3cret")
	}
	require.NoError(t, convertError(t, nil))
	require.False(t, abstractions.NotApplied(convertError(t, io.EOF)))
	require.True(t, abstractions.NotApplied(convertError(t, &net.OpError{Op: "dial", Err: errors.New("connection refused")})), "it was never sent")
	denied := fmt.Errorf("no token: %w", abstractions.ErrDenied) // an error from package auth
	require.ErrorIs(t, convertError(t, denied), denied)
}

func TestBlobRetryAfter(t *testing.T) {
	for _, test := range []struct {
		headers []string
		want    time.Duration
	}{
		{nil, 0},
		{[]string{"Retry-After", "7"}, 7 * time.Second},
		{[]string{"retry-after-ms", "70"}, 70 * time.Millisecond},
		{[]string{"x-ms-retry-after-ms", "80", "Retry-After", "7"}, 80 * time.Millisecond},
		{[]string{"Retry-After", "-1"}, 0},
		{[]string{"Retry-After", "99999999999999999999"}, 0},
		{[]string{"Retry-After", "Sat, 21 Nov 2026 14:00:09 GMT", "Date", "Sat, 21 Nov 2026 14:00:00 GMT"}, 9 * time.Second},
		{[]string{"Retry-After", "Sat, 21 Nov 2026 14:00:09 GMT", "Date", "Sat, 21 Nov 2026 15:00:00 GMT"}, 0},
		{[]string{"Retry-After", "Sat, 21 Nov 2026 14:00:09 GMT"}, 0},
	} {
		var throttled *abstractions.ThrottledError
		require.ErrorAs(t, convertError(t, answerError(503, "ServerBusy", test.headers...)), &throttled)
		require.Equal(t, test.want, throttled.RetryAfter, "%v", test.headers)
	}
	require.Zero(t, dateOf(errors.New("no answer")))
	require.Zero(t, dateOf(answerError(404, "BlobNotFound")))
	require.Zero(t, dateOf(&azcore.ResponseError{StatusCode: 404}))
}

// Callers get no error that is internal to this package.
func TestTrap_T27_BlobStatusesOfEachCall(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.acquire("n", "a")
	for _, test := range []struct {
		status int
		code   string
		want   error
	}{
		{503, "ServerBusy", abstractions.ErrThrottled}, {403, "AuthenticationFailed", abstractions.ErrDenied}, {401, "InvalidAuthenticationInfo", abstractions.ErrDenied},
		{409, "ContainerBeingDeleted", abstractions.ErrNotSetUp}, {404, "ContainerNotFound", abstractions.ErrNotSetUp}, {500, "OperationTimedOut", abstractions.ErrUnavailable},
		{412, "ConditionNotMet", abstractions.ErrUnavailable}, {404, "BlobNotFound", abstractions.ErrUnavailable},
	} {
		b.recorder.answerWith("", test.status, "x-ms-error-code", test.code, "Date", time.Now().UTC().Format(http.TimeFormat))
		for what, call := range everyCall(b.Provider, g) {
			err := call(t.Context())
			if what == "renew" && errors.Is(err, abstractions.ErrLost) && test.status == 404 || test.code == "ContainerBeingDeleted" && errors.Is(err, abstractions.ErrLost) {
				require.NotErrorIs(t, err, abstractions.ErrNotSetUp)
				continue // there is no blob any more
			}
			if test.code == "BlobNotFound" && err == nil && slices.Contains([]string{"inspect", "break", "ping"}, what) {
				continue
			}
			if (test.code == "ConditionNotMet" || test.code == "BlobNotFound") && what == "acquire" && errors.Is(err, abstractions.ErrHeld) {
				continue
			}
			require.ErrorIs(t, err, test.want, "%s %s", what, test.code)
			require.NotErrorIs(t, err, cas.ErrConflict)
		}
	}
	b.recorder.reset()
	require.NoError(t, b.renew(g), "none of it was certain to have ended the lease")
}

// meansAfter returns f.means, or isUnknown if the call has made a write before the fault: the outcome of such a call as a whole
// is unknown.
func (f fault) meansAfter(w *recorder) func(error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrote {
		return isUnknown
	}
	return f.means
}

// T27: ErrThrottled, ErrDenied and ErrNotSetUp mean that nothing was applied, so a
// call whose first write was applied does not return these errors. Otherwise a caller
// would conclude that the lease is unchanged.
func TestTrap_T27_BlobNothingWasAppliedIsNotSaidAfterAWrite(t *testing.T) {
	t.Parallel()
	for _, answer := range []struct {
		status int
		code   string
	}{{503, "ServerBusy"}, {429, "TooManyRequests"}, {403, "AuthorizationFailure"}, {404, "ContainerNotFound"}, {409, "ContainerBeingDeleted"}, {400, "FeatureVersionMismatch"}} {
		for what, step := range map[string]verb{"release": verbRelease, "release by ID": verbRelease, "break": verbBreak, "break at once": verbRelease} {
			b := newBed(t)
			g := b.acquire("n", "a")
			b.recorder.answerWith(step, answer.status, "x-ms-error-code", answer.code)
			err := halfEnding(b)[what](t.Context(), g)
			requireNoPromise(t, err, fmt.Sprint(what, answer))
			var sdk *azcore.ResponseError
			require.ErrorAs(t, err, &sdk, "the client library's error is there")
			require.Equal(t, answer.status, sdk.StatusCode)
			require.ErrorContains(t, err, fmt.Sprint(answer.status))
			b.recorder.reset()
			_, err = b.try("n", "a")
			require.ErrorIs(t, err, abstractions.ErrReleased, "it was applied")
			require.NoError(t, halfEnding(b)[what](t.Context(), g), "again")
		}
	}
}

func halfEnding(b *bed) map[string]func(ctx context.Context, g abstractions.Grant) error {
	return map[string]func(ctx context.Context, g abstractions.Grant) error{
		"release": func(ctx context.Context, g abstractions.Grant) error { return b.Release(ctx, releaseRequest(g)) },
		"release by ID": func(ctx context.Context, g abstractions.Grant) error {
			return b.Release(ctx, abstractions.ReleaseRequest{Name: g.Name, ID: g.ID})
		},
		"break": func(ctx context.Context, g abstractions.Grant) error {
			_, err := b.Break(ctx, abstractions.BreakRequest{Name: g.Name, IfToken: g.Token})
			return err
		},
		"break at once": func(ctx context.Context, g abstractions.Grant) error {
			_, err := b.Break(ctx, abstractions.BreakRequest{Name: g.Name, IfToken: g.Token, Immediate: true})
			return err
		},
	}
}

func requireNoPromise(t testing.TB, err error, what string) {
	t.Helper()
	require.ErrorIs(t, err, abstractions.ErrUnavailable, what)
	require.False(t, abstractions.NotApplied(err), what)
	for _, promise := range []error{abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp} {
		require.NotErrorIs(t, err, promise, what)
	}
	var throttled *abstractions.ThrottledError
	require.False(t, errors.As(err, &throttled), what)
}

// The error of a Break that starts over after its write, and is then refused, does not say that nothing was applied.
func TestTrap_T27_BlobBreakThatBeginsAgainAfterItsWrite(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"ServerBusy", "ContainerNotFound"} {
		b := newBed(t)
		g := b.acquire("n", "a")
		looks := 0
		b.recorder.set(func(v verb, r *http.Request) (*http.Response, error) {
			switch {
			case v == verbBreak:
				return newAnswer(r, http.StatusPreconditionFailed, "x-ms-error-code", "ConditionNotMet"), nil
			case v == verbRead:
				if looks++; looks > 1 {
					return newAnswer(r, map[string]int{"ServerBusy": 503, "ContainerNotFound": 404}[code], "x-ms-error-code", code), nil
				}
			}
			return nil, nil
		}, nil)
		_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", IfToken: g.Token})
		requireNoPromise(t, err, code)
	}
}
