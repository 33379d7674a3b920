package cosmoslease

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	azlog "github.com/Azure/azure-sdk-for-go/sdk/azcore/log"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// secret is an account key in base64.
const secret = "czNjcmV0LWtleS1vZi10aGUtYWNjb3VudA=="

type shown struct{ credentialtest.Shown }

// recordAll records the errors of all calls, and closes the provider.
func (s *shown) recordAll(t *testing.T, p *Provider) {
	g, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
	s.Show(g, err, &abstractions.Error{Op: "acquire", Err: err})
	_, err = p.Renew(t.Context(), abstractions.RenewRequest{Name: "n", ID: "a", Token: 1, TTL: time.Minute})
	s.Show(err)
	s.Show(p.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}), p.Ping(t.Context()))
	_, err = p.List(t.Context(), abstractions.ListRequest{})
	s.Show(err, p, p.Capabilities())
	require.NoError(t, p.Close())
}

// T49: no error, no log and no printed struct shows a key, whatever mistake the options
// contain.
func TestTrap_T49_KeysAreNotShown(t *testing.T) {
	s := new(shown)
	account := cosmostest.New(cosmostest.Options{Key: testKey}) // another key: each call is refused
	service := httptest.NewServer(account)
	defer service.Close()
	host := service.Listener.Addr().String()
	inURL := url.QueryEscape(secret)
	for _, o := range []Options{
		{Endpoint: service.URL, Key: secret, Database: "d", Container: "c"},
		{Endpoint: service.URL, Key: secret + "!", Database: "d", Container: "c"},
		{Endpoint: "https://:" + secret + "@h", Key: secret},
		{Endpoint: service.URL, Key: secret, Auth: auth.Options{Mode: auth.Auto}},
		{ConnectionString: "AccountEndpoint=" + service.URL + ";AccountKey=" + secret + ";", Database: "d", Container: "c"},
		{ConnectionString: "AccountEndpoint=x;AccountKey=" + secret + ";"},
		{ConnectionString: "AccountEndpoint;" + secret},
		{ConnectionString: secret},
		{URL: "cosmos+http://:" + inURL + "@" + host + "/d/c"},
		{URL: "cosmos+http://:" + inURL + "@" + host + "/d/c", Key: secret},
		{URL: "cosmos://:" + secret + "@h/d/c/" + secret},
		{URL: "cosmos://:a/" + secret + "@h/d/c"},
		{URL: "cosmos://:a?" + secret + "@h/d/c"},
		{URL: "cosmos://:a#" + secret + "@h/d/c"},
		{URL: "cosmos://:%zz" + secret + "@h/d/c"},
		{URL: "cosmos://" + secret + "@h/d/c"},
		{URL: "cosmos://" + secret + ":x@h/d/c"},
		{URL: "cosmos://h/d/c?key=" + secret},
		{URL: "mysql://:" + secret + "@h/d/c"},
		{URL: "cosmos://:" + inURL + "@nowhere.invalid:1/d/c", Timeout: time.Second},
	} {
		s.Show(o, &o, struct{ O Options }{o})
		p, err := Open(t.Context(), o)
		s.Show(err)
		if err == nil {
			s.recordAll(t, p)
		}
	}
	s.Show(json.Unmarshal([]byte(`{"key": "`+secret+`", "nothing": 3}`), &Options{}))
	s.Show(json.Unmarshal([]byte(`{"key": 3, "connection_string": "`+secret+`"}`), &Options{}))
	s.Show(json.Unmarshal([]byte(`{"auth": {"mode": "x", "service_principal": {"client_secret": "`+secret+`"}}}`), &Options{}))
	s.Hides(t, secret, inURL)
}

// T49: no error, no log, not even that of azcore, and no printed struct shows a token or a
// client secret.
func TestTrap_T49_TokensAreNotShown(t *testing.T) {
	s := new(shown)
	azlog.SetListener(func(_ azlog.Event, text string) { s.Show(text) })
	defer azlog.SetListener(nil)
	server := authtest.Start(t)
	account := cosmostest.New(cosmostest.Options{Token: func(token string) error { return server.Check(token, "http://elsewhere") }})
	service := httptest.NewServer(account)
	defer service.Close()
	for _, o := range []auth.Options{server.ClientSecret(), server.ManagedIdentity(), server.Federated()} {
		options := Options{Endpoint: service.URL, Auth: o, Database: "d", Container: "c"}
		s.Show(options)
		s.recordAll(t, openTest(t, options))
		server.Fail(500)
		s.recordAll(t, openTest(t, options))
		server.Fail(0)
	}
	s.Hides(t, server.Secrets()...)
}

// T49: the error about a key in the wrong part of a URL does not show the key.
func TestTrap_T49_AKeyInTheWrongPlaceIsNotShown(t *testing.T) {
	for _, rest := range []string{
		"?auth=" + secret, "?" + secret, "?" + secret + "=x", "?throughput=" + secret, "?create=" + secret, "?retention=" + secret,
		"?auth=" + strings.Repeat("k", 40), "?" + strings.Repeat("k", 40) + "=", "?key=" + secret,
	} {
		_, err := OpenURL(t.Context(), "cosmos://account.documents.azure.com/db/c"+rest)
		require.ErrorIs(t, err, abstractions.ErrInvalid)
		s := new(shown)
		s.Show(err)
		s.Hides(t, strings.TrimRight(secret, "="), strings.Repeat("k", 40))
	}
	_, err := OpenURL(t.Context(), "cosmos://account.documents.azure.com/db/c?auth=Manged")
	require.ErrorContains(t, err, "Manged")
	_, err = OpenURL(t.Context(), "cosmos://account.documents.azure.com/db/c?retenton=1h")
	require.ErrorContains(t, err, "retenton")
}
