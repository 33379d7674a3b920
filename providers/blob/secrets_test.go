package bloblease

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	azlog "github.com/Azure/azure-sdk-for-go/sdk/azcore/log"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/auth"
	"github.com/stretchr/testify/require"
)

// canary is a secret; canaryKey is its form as a key, in base64.
const canary = "s3cretCanary"

var canaryKey = base64.StdEncoding.EncodeToString([]byte(canary + canary))

// T49: no error, no log and no printed struct shows a secret, whatever mistake the
// options contain.
func TestTrap_T49_BlobSecretsAreNotShown(t *testing.T) {
	t.Setenv("LEASING_TEST_CONNECTION", "AccountName=account;AccountKey="+canaryKey+";BlobEndpoint=http://127.0.0.1:1/account")
	nowhere := "http://127.0.0.1:1/account"
	s := new(credentialtest.Shown)
	azlog.SetListener(func(event azlog.Event, text string) { s.Show(string(event), text) })
	t.Cleanup(func() { azlog.SetListener(nil) })
	for _, o := range []Options{
		{AccountURL: nowhere, Container: "leases", AccountKey: canaryKey},
		{AccountURL: nowhere, Container: "leases", AccountKey: canary + "!"},
		{AccountURL: nowhere, Container: "leases", SAS: "sv=1&sig=" + canary},
		{AccountURL: nowhere + "/leases?sv=1&sig=" + canary},
		{AccountURL: nowhere + "/leases?sv=1&sig=" + canary + "%zz"},
		{AccountURL: nowhere + "/leases?sig=" + canary},
		{AccountURL: "http://127.0.0.1:bad/account?sv=1&sig=" + canary, Container: "leases"},
		{AccountURL: "https://account:" + canary + "@127.0.0.1/account", Container: "leases"},
		{AccountURL: nowhere + "/leases#" + canary, AccountKey: canaryKey},
		{ConnectionString: "AccountName=account;AccountKey=" + canaryKey + ";BlobEndpoint=" + nowhere, Container: "leases"},
		{ConnectionString: "AccountName=account;AccountKey=" + canary + "!", Container: "leases"},
		{ConnectionString: "AccountKey=" + canaryKey, Container: "leases"},
		{ConnectionString: "BlobEndpoint=" + nowhere + ";SharedAccessSignature=sv=1&sig=" + canary, Container: "leases"},
		{ConnectionString: "BlobEndpoint=http://127.0.0.1:bad/;SharedAccessSignature=sv=1&sig=" + canary, Container: "leases"},
		{ConnectionString: canary, Container: "leases"},
		{URL: "azblob+http://account:" + canary + "@127.0.0.1:1/account/leases"},
		{URL: "azblob+http://account:12/" + canary + "@127.0.0.1:1/account/leases"},
		{URL: "azblob+http://account:12?" + canary + "@127.0.0.1:1/account/leases"},
		{URL: "azblob+http://account:12?x=" + canary + "@127.0.0.1:1/account/leases"},
		{URL: "azblob+http://account:12?" + canary + "=x@127.0.0.1:1/account/leases"},
		{URL: "azblob+http://account:12#" + canary + "@127.0.0.1:1/account/leases"},
		{URL: "azblob+http://account:%zz" + canary + "@127.0.0.1:1/account/leases"},
		{URL: "azblob+http://" + canary + "@127.0.0.1:1/account/leases"},
		{URL: "azblob+http://127.0.0.1:1/account/leases?sv=1&sig=" + canary},
		{URL: "azblob+http://127.0.0.1:1/account/leases?sig=" + canary},
		{URL: "azblob+http://127.0.0.1:1/account/leases?sas=" + canary},
		{URL: "azblob+http://127.0.0.1:1/account/leases?account_key=" + canary},
		{URL: "azblob+http://127.0.0.1:1/account/leases?account_key=" + canary + "&account_key=" + canary},
		{URL: "azblob://account/leases?auth=ServicePrincipal&client_secret=" + canary},
		{URL: "azblob:///leases?connection_string_env=LEASING_TEST_CONNECTION"},
		{URL: "azblob:///leases?connection_string=" + canary},
		{URL: "azblob://x/leases?auth=Auto", AccountKey: canary},
		{URL: "https://account:" + canary + "@host/leases"},
		{AccountURL: nowhere, Container: "leases", Auth: auth.Options{Mode: auth.ServicePrincipal, ServicePrincipal: auth.ServicePrincipalOptions{ClientSecret: canary}}},
	} {
		s.Show(o, &o, struct{ O Options }{o})
		p, err := Open(t.Context(), o)
		if err == nil {
			err = showEverything(t, s, p)
		}
		require.Error(t, err)
		s.Show(err)
	}
	s.Show(json.Unmarshal([]byte(`{"account_key": "`+canary+`", "ttl": 3}`), &Options{}))
	s.Show(json.Unmarshal([]byte(`{"connection_string": "`+canary+`", "retention": "x"}`), &Options{}))
	s.Hides(t, canary, canaryKey)
	require.Contains(t, s.String(), "127.0.0.1:1", "something was shown")
}

// showEverything records a provider's text and the errors of its calls, and closes the
// provider.
func showEverything(t *testing.T, s *credentialtest.Shown, p *Provider) (last error) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for what, call := range everyCall(p, abstractions.Grant{Name: "n", ID: "a", Token: 1, TTL: maxTTL}) {
		err := call(ctx)
		require.Error(t, err, what)
		s.Show(err, &abstractions.Error{Op: what, Err: err})
		last = err
	}
	s.Show(p.Capabilities())
	require.NoError(t, p.Close())
	return last
}

// A service that refuses a signature quotes the signed text; the provider's error does not.
func TestTrap_T49_BlobRefusedSignatureIsNotShown(t *testing.T) {
	server := StartAzurite(t)
	b := bedOn(t, server)
	good := b.sas(t, server)
	for _, o := range []Options{
		{AccountURL: server.URL(), AccountKey: canaryKey},
		{AccountURL: server.URL(), SAS: strings.Replace(good, "sig=", "sig="+canary, 1)},
	} {
		s := new(credentialtest.Shown)
		o.Container = b.options.Container
		p, err := Open(t.Context(), o)
		require.NoError(t, err)
		require.ErrorIs(t, showEverything(t, s, p), abstractions.ErrDenied)
		s.Hides(t, canary, canaryKey)
	}
}

// The application's own transport may be an http.Client, whose errors quote the URL. Neither
// the provider's errors nor the library's log show the secret in the URL.
func TestTrap_T49_BlobTransportOfTheUsersOwn(t *testing.T) {
	s := new(credentialtest.Shown)
	azlog.SetListener(func(event azlog.Event, text string) { s.Show(string(event), text) })
	t.Cleanup(func() { azlog.SetListener(nil) })
	o := Options{AccountURL: "http://127.0.0.1:1/account", Container: "leases", SAS: "sv=1&sig=" + canary}
	o.ClientOptions.Transport = &http.Client{Transport: &http.Transport{}}
	p, err := Open(t.Context(), o)
	require.NoError(t, err)
	require.ErrorIs(t, showEverything(t, s, p), abstractions.ErrUnavailable)
	s.Hides(t, canary)
	require.Contains(t, s.String(), "127.0.0.1:1")
}
