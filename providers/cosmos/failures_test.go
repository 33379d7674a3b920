package cosmoslease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

var kinds = []error{abstractions.ErrUnavailable, abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrClosed}

// answer returns an azcosmos error whose text contains words of every meaning.
func answer(code int, header http.Header) error {
	return fmt.Errorf("wrapped: %w", &azcore.ResponseError{
		StatusCode: code, ErrorCode: "404 NotFound 412 429 held lost denied",
		RawResponse: &http.Response{StatusCode: code, Header: header, Body: http.NoBody, Request: &http.Request{Method: http.MethodGet}},
	})
}

func requireMeaning(t *testing.T, err, cause error, want ...error) {
	t.Helper()
	for _, kind := range kinds {
		require.Equal(t, slices.Contains(want, kind), errors.Is(err, kind), "%v: %v", cause, kind)
	}
	require.ErrorIs(t, err, cause, "the library's error stays in the chain")
}

// explain converts an error to the error that callers get.
func explain(err error) error {
	d := &driver{Records: cas.Records{Expiry: &cas.Expiry{}}}
	p := providerkit.New(d, providerkit.Config{})
	return providerkit.Call(context.Background(), p, "test", "n", func(context.Context) error { return err })
}

// T27: the meaning of an error depends on its status and substatus, never on its text. The
// statuses 403, 404 and 409 each have several meanings.
func TestTrap_T27_StatusDecidesWhatAnErrorMeans(t *testing.T) {
	unavailable, throttled := []error{abstractions.ErrUnavailable}, []error{abstractions.ErrUnavailable, abstractions.ErrThrottled}
	setup, refusedIdentity := []error{abstractions.ErrNotSetUp}, []error{abstractions.ErrDenied}
	const misused, denied, refused, unknown = providerkit.NotSetUp, providerkit.Denied, providerkit.Refused, providerkit.Unknown
	for _, test := range []struct {
		code, sub int
		class     providerkit.Class
		want      []error
	}{
		{400, 0, misused, setup}, {400, 1001, misused, setup}, {401, 0, denied, refusedIdentity}, {401, 5000, denied, refusedIdentity},
		{403, 0, denied, refusedIdentity}, {403, 3, refused, throttled}, {403, 1008, refused, throttled}, {403, 1014, denied, refusedIdentity}, {403, 5300, denied, refusedIdentity},
		{404, 0, missing, unavailable}, {404, 1002, unknown, unavailable}, {404, 1003, noContainer, setup}, {404, 1024, unknown, unavailable}, {404, 9999, missing, unavailable},
		{408, 0, unknown, unavailable}, {409, 0, conflict, unavailable}, {409, 1, conflict, unavailable}, {410, 0, unknown, unavailable}, {410, 1002, unknown, unavailable},
		{412, 0, conflict, unavailable}, {413, 0, misused, setup}, {429, 0, refused, throttled}, {429, 3200, refused, throttled}, {429, 3201, refused, throttled},
		{449, 0, unknown, unavailable}, {500, 0, unknown, unavailable}, {502, 0, unknown, unavailable}, {503, 0, unknown, unavailable}, {503, 21005, unknown, unavailable},
		{504, 0, unknown, unavailable}, {418, 0, unknown, unavailable}, {200, 0, unknown, unavailable},
	} {
		err := answer(test.code, http.Header{"X-Ms-Substatus": {fmt.Sprint(test.sub)}})
		require.Equal(t, test.class, classOf(err), "%d/%d", test.code, test.sub)
		requireMeaning(t, explain(err), err, test.want...)
		requireMeaning(t, explain(shortError(err)), err, test.want...)
	}
}

// T71: only a read can be reported as not sent: azcosmos repeats writes, and an earlier
// copy may have arrived.
func TestTrap_T71_OnlyAReadIsKnownNotToHaveBeenSent(t *testing.T) {
	for _, cause := range []error{
		io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded, errors.New("409 Conflict"), errors.New("412"),
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}, &net.DNSError{Err: "no such host"},
	} {
		requireMeaning(t, explain(cause), cause, abstractions.ErrUnavailable)
		require.False(t, abstractions.NotApplied(explain(cause)), cause)
		requireMeaning(t, explain(readError{cause}), cause, abstractions.ErrUnavailable)
		require.Equal(t, providerkit.NotSent(cause), abstractions.NotApplied(explain(readError{cause})), cause)
	}
}

// If the service is down or its host name is wrong, the error says that the request was not
// applied, so no clean-up follows.
func TestTrap_T71_AnAccountThatIsNotThereIsDefinite(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	p := openTest(t, Options{Endpoint: "http://" + listener.Addr().String(), Key: testKey, Database: "d", Container: "c"})
	_, err = p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
	requireUnavailable(t, err)
	require.True(t, abstractions.NotApplied(err))
	require.NotContains(t, err.Error(), "\n")
}

func TestRetryAfterIsReadInMilliseconds(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "1500": 1500 * time.Millisecond, "12.5": 12500 * time.Microsecond, "x": 0, "-1": 0, "99999999999": 0} {
		var throttled *abstractions.ThrottledError
		require.ErrorAs(t, explain(answer(429, http.Header{"X-Ms-Retry-After-Ms": {text}})), &throttled)
		require.Equal(t, want, throttled.RetryAfter, text)
	}
}

// A document that another program stored under a name is left unchanged, and reported.
func TestADocumentThatIsNotOursIsLeftAlone(t *testing.T) {
	for name, body := range map[string]string{
		"no document of ours":                       `{"id": "n", "what": "ever"}`,
		"of an earlier version":                     `{"id": "n", "v": 1, "name": "n", "token": 7, "ttl": -1}`,
		"of a later version":                        `{"id": "n", "lease": {"v": 2, "name": "n"}}`,
		"of another name":                           `{"id": "n", "lease": {"v": 1, "name": "m"}}`,
		"of another shape":                          `{"id": "n", "lease": {"v": 1, "name": "n", "token": "7"}}`,
		"T65, with a token that no number can hold": `{"id": "n", "lease": {"v": 1, "name": "n", "token": 9007199254740993}}`,
		"T65, the same as some languages write it":  `{"id": "n", "lease": {"v": 1, "name": "n", "token": 9.007199254740993e15}}`,
	} {
		inBubble(t, func(t *testing.T, b *bed) {
			c, err := b.driver.store.connection.container(t.Context())
			require.NoError(t, err)
			_, err = c.CreateItem(t.Context(), azcosmos.NewPartitionKeyString("n"), []byte(body), nil)
			require.NoError(t, err)
			_, err = b.try("n", "a")
			require.ErrorIs(t, err, abstractions.ErrNotSetUp, name)
			require.NotErrorIs(t, err, abstractions.ErrUnavailable, "which would be tried again")
			b.acquire("m", "a")
		})
	}
}

// T65: a token never exceeds the largest number that JSON represents exactly, and the
// error reports this limit.
func TestTrap_T65_NoTokenIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		c, err := b.driver.store.connection.container(t.Context())
		require.NoError(t, err)
		body := fmt.Sprintf(`{"id": "n", "lease": {"v": 1, "name": "n", "token": %d}}`, abstractions.MaxToken)
		_, err = c.CreateItem(t.Context(), azcosmos.NewPartitionKeyString("n"), []byte(body), nil)
		require.NoError(t, err)
		require.EqualValues(t, abstractions.MaxToken, b.inspect("n").Token)
		_, err = b.try("n", "a")
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
		require.NotErrorIs(t, err, abstractions.ErrUnavailable)
	})
}

// Without the service's time, the state of a lease is unknown.
func TestAReplyWithoutADateIsNoAnswer(t *testing.T) {
	for _, header := range []http.Header{nil, {}, {"Date": {"yesterday"}}} {
		_, err := httpguard.Date(header)
		requireUnknown(t, err)
	}
	now, err := httpguard.Date(http.Header{"Date": {"Tue, 14 Nov 2023 22:13:20 GMT"}})
	require.NoError(t, err)
	require.Equal(t, time.Unix(1_700_000_000, 0).UTC(), now)
}

// T183: an error contains the service's own sentences, except those that quote the signed text.
func TestTrap_T183_TheServicesOwnSentences(t *testing.T) {
	const mac = "8Rv0jPUy7Ee1Vv7s7pYvZ4sYkq3VJ4cWb0n2l1xQx9A="
	for _, c := range []struct {
		status         int
		message        string
		shown, advised string
	}{
		{401, "The input authorization token can't serve the request. The wrong key is being used. Server used the following payload to sign: 'get\n\ns3cret'", "The wrong key is being used", "clock is off"},
		{403, "Request originated from IP 1.2.3.4 through public internet. This is blocked by your Cosmos DB account firewall settings.", "firewall settings", "firewall"},
		{403, "Request blocked by Auth account : principal [1-2] does not have required RBAC permissions to perform action [Microsoft.DocumentDB/databaseAccounts/readMetadata] on any scope.", "[Microsoft.DocumentDB/databaseAccounts/readMetadata]", "RoleDefinition"},
		{403, "The authorization token is not valid at the current time. Please create another token and retry", "not valid at the current time", ""},
		{403, "The signature " + mac + " is another one.", "403/0, activity", ""},
	} {
		body, err := json.Marshal(map[string]string{"code": "Forbidden", "message": c.message + "\r\nActivityId: 1-2, Microsoft.Azure.Documents.Common/2.14.0"})
		require.NoError(t, err)
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://account.documents.azure.com/dbs/d", http.NoBody)
		request.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+mac))
		text := explain(shortError(runtime.NewResponseError(&http.Response{
			StatusCode: c.status, Header: http.Header{"X-Ms-Activity-Id": {"1-2"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: request,
		}))).Error()
		require.Contains(t, text, c.shown)
		require.Contains(t, text, c.advised)
		for _, secret := range []string{"s3cret", mac, mac[:20], "to sign", "\n", "Microsoft.Azure.Documents"} {
			require.NotContains(t, text, secret)
		}
	}
}

// An error has one line, which names the request, the status and the service's trace. The error
// from azcosmos contains the whole reply.
func TestErrorsHaveOneLine(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		for _, fault := range []cosmostest.Fault{{Status: 429}, {Status: 403}, {Status: 400}, {Status: 503}, {Status: 404, Substatus: 1002}, {Drop: true}} {
			b.account.Before(func(op cosmostest.Operation) cosmostest.Fault {
				if op.Verb == cosmostest.ReadAccount {
					return cosmostest.Fault{}
				}
				return fault
			})
			calls := verbsOf(b, g)
			calls["inspect"] = func() error {
				_, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
				return err
			}
			calls["list"] = func() error { _, err := b.List(t.Context(), abstractions.ListRequest{}); return err }
			calls["first use"] = func() error { return b.process().Ping(t.Context()) }
			for verb, call := range calls {
				err := call()
				require.Error(t, err, verb)
				require.NotContains(t, err.Error(), "\n", verb)
				require.Less(t, len(err.Error()), 500, verb)
				if fault.Status != 0 {
					require.Contains(t, err.Error(), fmt.Sprint(fault.Status), verb)
					var answered *azcore.ResponseError
					require.ErrorAs(t, err, &answered)
				}
			}
		}
	})
	require.Equal(t, "a b", shortError(errors.New("a\n\tb")).Error())
	require.NoError(t, shortError(nil))
}
