package bloblease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/stretchr/testify/require"
)

// tokenOptions returns a provider's options for tokens, over https.
func tokenOptions(t testing.TB, server *Azurite, identity auth.Options) Options {
	t.Helper()
	transport := server.transport()
	t.Cleanup(transport.CloseIdleConnections)
	o := Options{AccountURL: server.URL(), Container: newContainer(), Auth: identity, Create: true, Infinite: true}
	o.ClientOptions.Transport = &http.Client{Transport: transport}
	return o
}

func TestConformanceBlobBearer(t *testing.T) {
	servertest.Long(t)
	server := startAzurite(t, true)
	o := azuriteOpener(tokenOptions(t, server, authtest.Start(t).ClientSecret()))
	require.NoError(t, o.open(t).Ping(t.Context())) // opens connections, which the test has to close
	providertest.Run(t, harness(o))
}

// T48: each mode gets tokens, and uses them for a lease that outlives the first token.
func TestTrap_T48_BlobLeaseOutlivesItsToken(t *testing.T) {
	server := startAzurite(t, true)
	authtest.Each(t, func(t *testing.T, tokens *authtest.Server, identity auth.Options) {
		tokens.SetLifetime(2 * time.Second)
		p, err := Open(t.Context(), tokenOptions(t, server, identity))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		m := managerOf(t, p, leasing.Options{TTL: minTTL, RenewCadence: 500 * time.Millisecond})
		lease, err := m.TryAcquire(t.Context(), "n")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return len(tokens.Issued()) >= 2 }, time.Minute, 10*time.Millisecond)
		before := lease.Renewals()
		require.Eventually(t, func() bool { return lease.Renewals() >= before+2 }, time.Minute, 10*time.Millisecond)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release(t.Context()))
	})
}

// Entra ID fails in the middle of a lease. The lease is not lost, and the failure is
// not reported as throttling by the account.
func TestBlobTokensFailInMidLease(t *testing.T) {
	server := startAzurite(t, true)
	tokens := authtest.Start(t)
	tokens.SetLifetime(2 * time.Second)
	identity := tokens.ClientSecret()
	identity.Client.Retry = policy.RetryOptions{MaxRetries: -1}
	p, err := Open(t.Context(), tokenOptions(t, server, identity))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	g, err := p.Acquire(t.Context(), acquireRequest("n", "a"))
	require.NoError(t, err)
	for status, want := range map[int]error{401: abstractions.ErrDenied, 500: abstractions.ErrUnavailable, 429: abstractions.ErrUnavailable, 503: abstractions.ErrUnavailable} {
		tokens.Fail(status)
		require.Eventually(t, func() bool { // Azurite may get a token just before the token expires, and deny the request
			_, err := p.Renew(t.Context(), renewRequest(g))
			require.NotErrorIs(t, err, abstractions.ErrLost)
			require.NotErrorIs(t, err, abstractions.ErrThrottled, "the account is not")
			return errors.Is(err, want)
		}, time.Minute, 50*time.Millisecond, "%d", status)
		tokens.Fail(0)
		require.Eventually(t, func() bool { _, err := p.Renew(t.Context(), renewRequest(g)); return err == nil }, time.Minute, 50*time.Millisecond)
	}
}

// An identity without permissions, and a request whose time is off by more than the service permits
// (learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key, 15 minutes), are denied.
func TestBlobDenied(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	o := b.options
	o.ConnectionString = o.ConnectionString[:strings.Index(o.ConnectionString, "AccountKey=")] + "AccountKey=d3Jvbmc=" + o.ConnectionString[strings.Index(o.ConnectionString, ";BlobEndpoint"):]
	p := opener{o, true}.open(t)
	for what, call := range everyCall(p, abstractions.Grant{Name: "n", ID: "a", Token: 1, TTL: maxTTL}) {
		require.ErrorIs(t, call(t.Context()), abstractions.ErrDenied, what)
	}
	g := b.acquire("n", "a")
	b.recorder.answerWith("", 403, "x-ms-error-code", "AuthenticationFailed")
	require.ErrorIs(t, b.renew(g), abstractions.ErrDenied)
	b.recorder.reset()
	require.NoError(t, b.renew(g))
}

// A provider opens with every kind of identity and address.
func TestBlobIdentities(t *testing.T) {
	t.Parallel()
	server := StartAzurite(t)
	b := bedOn(t, server)
	signature := b.sas(t, server)
	host, key := strings.TrimPrefix(server.URL(), "http://"), url.QueryEscape(server.key)
	var last int64
	for what, o := range map[string]Options{
		"connection string":   {ConnectionString: server.ConnectionString(), Container: b.options.Container},
		"SAS connection":      {ConnectionString: "BlobEndpoint=" + server.URL() + ";SharedAccessSignature=" + signature, Container: b.options.Container},
		"key":                 {AccountURL: server.URL(), Container: b.options.Container, AccountKey: server.key},
		"key, container's":    {AccountURL: server.URL() + "/" + b.options.Container, AccountKey: server.key},
		"SAS":                 {AccountURL: server.URL(), Container: b.options.Container, SAS: signature},
		"SAS URL":             {AccountURL: server.URL() + "/" + b.options.Container + "?" + signature},
		"URL with key":        {URL: fmt.Sprintf("azblob+http://%s:%s@%s/%s?retention=1h", azuriteAccount, key, host, b.options.Container)},
		"URL with SAS":        {URL: fmt.Sprintf("azblob+http://%s/%s?%s&timeout=9s", host, b.options.Container, signature)},
		"URL with key, IPv4 ": {URL: fmt.Sprintf("azblob+http://:%s@%s/%s", key, host, b.options.Container)},
	} {
		p, err := Open(t.Context(), o)
		require.NoError(t, err, what)
		require.NoError(t, p.Ping(t.Context()), what)
		g, err := p.Acquire(t.Context(), acquireRequest("n", "a"+abstractions.NewID()))
		require.NoError(t, err, what)
		require.Greater(t, g.Token, last, "the same name")
		last = g.Token
		_, err = p.List(t.Context(), abstractions.ListRequest{})
		require.NoError(t, err, what)
		require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
		require.NoError(t, p.Close())
		require.ErrorIs(t, p.Ping(t.Context()), abstractions.ErrClosed)
	}
}

// sas returns an account SAS with the permissions that doc.go requires.
func (b *bed) sas(t testing.TB, server *Azurite) string {
	key, err := service.NewSharedKeyCredential(azuriteAccount, server.key)
	require.NoError(t, err)
	client, err := service.NewClientWithSharedKeyCredential(server.URL(), key, nil)
	require.NoError(t, err)
	signed, err := client.GetSASURL(sas.AccountResourceTypes{Container: true, Object: true}, sas.AccountPermissions{Read: true, Create: true, Write: true, List: true}, time.Now().Add(time.Hour), nil)
	require.NoError(t, err)
	_, query, _ := strings.Cut(signed, "?")
	return query
}

// The application passes its own credential. A call with this credential ends when the call's context ends.
func TestBlobOwnCredential(t *testing.T) {
	t.Parallel()
	server := startAzurite(t, true)
	own, err := auth.New(authtest.Start(t).ClientSecret())
	require.NoError(t, err)
	o := tokenOptions(t, server, auth.Options{})
	o.Credential = own
	p, err := Open(t.Context(), o)
	require.NoError(t, err)
	g, err := p.Acquire(t.Context(), acquireRequest("n", "a"))
	require.NoError(t, err)
	require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
	require.NoError(t, p.Close())

	ctx, cancel := context.WithCancel(t.Context())
	o.ClientOptions.Transport = transportFunc(func(*http.Request) (*http.Response, error) { cancel(); <-ctx.Done(); return nil, ctx.Err() })
	p, err = Open(t.Context(), o)
	require.NoError(t, err)
	require.True(t, errors.Is(p.Ping(ctx), context.Canceled))
	require.NoError(t, p.Close())
}

// transportFunc is a function as a transport.
type transportFunc func(*http.Request) (*http.Response, error)

func (d transportFunc) Do(r *http.Request) (*http.Response, error) { return d(r) }
