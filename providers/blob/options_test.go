package bloblease

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/auth"
	"github.com/stretchr/testify/require"
)

const account = "https://account.blob.core.windows.net"

var identity = auth.Options{Mode: auth.ManagedIdentity}

func opens(t *testing.T, o Options) error {
	t.Helper()
	p, err := Open(t.Context(), o)
	if err == nil {
		require.NoError(t, p.Close())
	}
	return err
}

func TestBlobOptionsThatWork(t *testing.T) {
	t.Setenv("LEASING_TEST_CONNECTION", "AccountName=account;AccountKey=a2V5")
	for _, o := range []Options{
		{AccountURL: account, Container: "leases", Auth: identity},
		{AccountURL: account + "/", Container: "leases", Auth: identity},
		{AccountURL: account + "/leases", Auth: identity},
		{AccountURL: account + "/leases/", Container: "leases", Auth: identity},
		{AccountURL: "https://account.z01.blob.storage.azure.net/leases", Auth: identity},
		{AccountURL: "http://127.0.0.1:10000/devstoreaccount1", Container: "leases", AccountKey: "a2V5"},
		{AccountURL: "http://localhost:10000/devstoreaccount1/leases", AccountKey: "a2V5"},
		{AccountURL: "http://azurite:10000/devstoreaccount1/leases", AccountKey: "a2V5"},
		{AccountURL: account, Container: "leases", SAS: "?sv=1&sig=x"},
		{ConnectionString: "DefaultEndpointsProtocol=https;AccountName=account;AccountKey=a2V5;EndpointSuffix=core.windows.net;", Container: "leases"},
		{AccountURL: account, Container: "leases", Auth: identity, Prefix: "a-b/c_d.e/", Retention: abstractions.Infinite, Timeout: time.Hour},
		{URL: "azblob://account/leases?auth=managedidentity"},
		{URL: "azblob://account/leases?auth=ManagedIdentity&prefix=x/&retention=forever&timeout=5s&create=true&infinite=1"},
		{URL: "azblob:///leases?connection_string_env=LEASING_TEST_CONNECTION"},
		{URL: "azblob://account/leases?sv=1&sig=x%2F"},
		{URL: "azblob://host.example:8443/leases?auth=Auto"},
		{URL: "azblob+http://[::1]:10000/account/leases?sv=1&sig=x"},
	} {
		require.NoError(t, opens(t, o), o)
	}
}

func TestBlobURLsSayWhatTheOptionsSay(t *testing.T) {
	t.Setenv("LEASING_TEST_CONNECTION", "AccountName=account;AccountKey=a2V5")
	for url, want := range map[string]Options{
		"azblob://account/leases?auth=ManagedIdentity":                      {AccountURL: account, Container: "leases", Auth: identity},
		"azblob://account:a%2Fb%2B%3D@account.blob.core.windows.net/leases": {AccountURL: account, Container: "leases", AccountKey: "a/b+="},
		"azblob://:a2V5@account/leases?infinite=true":                       {AccountURL: account, Container: "leases", AccountKey: "a2V5", Infinite: true},
		"azblob://account/leases?sv=1&sig=x%2F":                             {AccountURL: account, Container: "leases", SAS: "sig=x%2F&sv=1"},
		"azblob:///leases?connection_string_env=LEASING_TEST_CONNECTION":    {ConnectionString: "AccountName=account;AccountKey=a2V5", Container: "leases"},
		"azblob+http://dev:a2V5@127.0.0.1:10000/dev/leases?create=1":        {AccountURL: "http://127.0.0.1:10000/dev", Container: "leases", AccountKey: "a2V5", Create: true},
	} {
		got := Options{URL: url}
		require.NoError(t, got.readURL(), url)
		require.Equal(t, want, got, url)
	}
}

func TestBlobOptionsThatDoNotWork(t *testing.T) {
	good := Options{AccountURL: account, Container: "leases", Auth: identity}
	change := func(f func(o *Options)) Options {
		o := good
		f(&o)
		return o
	}
	for _, test := range []struct {
		o     Options
		field string
	}{
		{Options{}, "Options"},
		{change(func(o *Options) { o.URL = "azblob://account/leases?auth=Auto" }), "Options"},
		{change(func(o *Options) { o.ConnectionString = "AccountName=a;AccountKey=a2V5" }), "Options"},
		{change(func(o *Options) { o.Auth = auth.Options{} }), "Options"},
		{change(func(o *Options) { o.AccountKey = "a2V5" }), "Options"},
		{change(func(o *Options) { o.SAS = "sv=1&sig=x" }), "Options"},
		{change(func(o *Options) { o.AccountURL += "?sv=1&sig=x" }), "Options"},
		{Options{ConnectionString: "AccountName=a;AccountKey=a2V5", Container: "leases", Auth: identity}, "Options.ConnectionString"},
		{Options{ConnectionString: "nonsense", Container: "leases"}, "Options.ConnectionString"},
		{Options{ConnectionString: "AccountName=account;AccountKey=!", Container: "leases"}, "Options.ConnectionString"},
		{Options{ConnectionString: "AccountName=account", Container: "leases"}, "Options.ConnectionString"},
		{change(func(o *Options) { o.AccountURL = "account.blob.core.windows.net" }), "Options.AccountURL"},
		{change(func(o *Options) { o.AccountURL = "ftp://account" }), "Options.AccountURL"},
		{change(func(o *Options) { o.AccountURL = "https://user:key@account.blob.core.windows.net" }), "Options.AccountURL"},
		{change(func(o *Options) { o.AccountURL += "/a/b" }), "Options.AccountURL"},
		{change(func(o *Options) { o.AccountURL = "https://127.0.0.1:10000" }), "Options.AccountURL"},
		{change(func(o *Options) { o.AccountURL = "http://account.example" }), "Options.AccountURL"},
		{Options{AccountURL: account + "?sv=1&sig=x", SAS: "sv=1&sig=x", Container: "leases"}, "Options.AccountURL"},
		{Options{AccountURL: account, SAS: "sig=x", Container: "leases"}, "Options.SAS"},
		{Options{AccountURL: account, AccountKey: "no base64", Container: "leases"}, "Options.AccountKey"},
		{change(func(o *Options) { o.Auth.Mode = "x" }), "auth.Options.Mode"},
		{change(func(o *Options) { o.Container = "" }), "Options.Container"},
		{change(func(o *Options) { o.Container = "Leases" }), "Options.Container"},
		{change(func(o *Options) { o.Container = "a--b" }), "Options.Container"},
		{change(func(o *Options) { o.Container = strings.Repeat("a", 64) }), "Options.Container"},
		{change(func(o *Options) { o.AccountURL += "/other" }), "Options.Container"},
		{change(func(o *Options) { o.Prefix = "/x" }), "Options.Prefix"},
		{change(func(o *Options) { o.Prefix = "a//b" }), "Options.Prefix"},
		{change(func(o *Options) { o.Prefix = "../" }), "Options.Prefix"},
		{change(func(o *Options) { o.Prefix = "a./" }), "Options.Prefix"},
		{change(func(o *Options) { o.Prefix = "a:b" }), "Options.Prefix"},
		{change(func(o *Options) { o.Prefix = strings.Repeat("a", 201) }), "Options.Prefix"},
		{change(func(o *Options) { o.Retention = time.Second }), "Options.Retention"},
		{change(func(o *Options) { o.Retention = -1 }), "Options.Retention"},
		{change(func(o *Options) { o.Timeout = abstractions.Infinite }), "Options.Timeout"},
		{change(func(o *Options) { o.ClientOptions.Retry = policy.RetryOptions{MaxRetries: 3} }), "Options.ClientOptions.Retry"},
		{Options{URL: "azblob://account/leases?auth=Auto", Container: "x"}, "Options.URL"},
		{Options{URL: "azblob://account/leases?auth=Auto", AccountKey: "x"}, "Options.URL"},
		{Options{URL: "https://account/leases"}, "Options.URL"},
		{Options{URL: "azblob://account"}, "Options.URL"},
		{Options{URL: "azblob://account/"}, "Options.URL"},
		{Options{URL: "azblob://account/a/b"}, "Options.URL"},
		{Options{URL: "azblob:///leases?auth=Auto"}, "Options.URL"},
		{Options{URL: "azblob://other:a2V5@account/leases"}, "Options.URL"},
		{Options{URL: "azblob://key@account/leases"}, "Options.URL"},
		{Options{URL: "azblob://account:%zz@account/leases"}, "Options.URL"},
		{Options{URL: "azblob://account/leases?auth=Auto#x"}, "Options.URL"},
		{Options{URL: "azblob://account:a/b@account/leases"}, "Options.URL"},
		{Options{URL: "azblob://host/leases?connection_string_env=PATH"}, "Options.URL"},
		{Options{URL: "azblob://account/leases"}, "Options"},
		{Options{URL: "azblob://account/leases?auth=x"}, "Options.URL parameter auth"},
		{Options{URL: "azblob://account/leases?client_id=x"}, "Options.URL parameter"},
		{Options{URL: "azblob://account/leases?auth=Auto&infinite=x"}, "Options.URL parameter infinite"},
		{Options{URL: "azblob://account/leases?auth=Auto&retention=x"}, "Options.URL parameter retention"},
		{Options{URL: "azblob://account/leases?auth=Auto&retention=1h&retention=2h"}, "Options.URL parameter retention"},
		{Options{URL: "azblob://account/leases?auth=Auto&ttl=1h"}, "Options.URL parameter"},
		{Options{URL: "azblob://account/leases?auth=ServicePrincipal&client_secret=x"}, "Options.URL parameter"},
		{Options{URL: "azblob:///leases?connection_string_env=LEASING_NO_SUCH_VARIABLE"}, "Options.URL parameter connection_string_env"},
	} {
		err := opens(t, test.o)
		var invalid *abstractions.InvalidError
		require.ErrorAs(t, err, &invalid, "%s %s", test.field, test.o.URL)
		require.Equal(t, test.field, invalid.Field, "%v", err)
		require.NotEmpty(t, invalid.Want)
	}
}

func TestBlobOptionsAsJSON(t *testing.T) {
	var o Options
	require.NoError(t, json.Unmarshal([]byte(`{
		"account_url": "https://account.blob.core.windows.net", "container": "leases", "prefix": "x/", "retention": "forever", "timeout": "5s",
		"create": true, "infinite": true,
		"auth": {"mode": "WorkloadIdentity", "workload_identity": {"client_id": "c", "tenant_id": "t"}}
	}`), &o))
	require.Equal(t, Options{
		AccountURL: account, Container: "leases", Prefix: "x/", Retention: abstractions.Infinite, Timeout: 5 * time.Second, Create: true, Infinite: true,
		Auth: auth.Options{Mode: auth.WorkloadIdentity, WorkloadIdentity: auth.WorkloadIdentityOptions{ClientID: "c", TenantID: "t"}},
	}, o)
	for text, field := range map[string]string{
		`{"ttl": 3}`: "Options in JSON", `{"retention": 3}`: "Options.Retention", `{"timeout": "x"}`: "Options.Timeout", `[]`: "Options",
		`{"auth": {"mode": "x"}}`: "auth.Options.Mode", `{"auth": {"Mod": "x"}}`: "auth.Options",
	} {
		var invalid *abstractions.InvalidError
		require.ErrorAs(t, json.Unmarshal([]byte(text), &Options{}), &invalid, text)
		require.Equal(t, field, invalid.Field)
	}
}

func TestBlobCapabilities(t *testing.T) {
	c := capabilitiesOf(Options{})
	require.False(t, c.Infinite, "has to be asked for")
	require.True(t, capabilitiesOf(Options{Infinite: true}).Infinite)
	require.Equal(t, "blob", c.Provider)
	p, err := Open(t.Context(), Options{AccountURL: account, Container: "leases", Auth: identity})
	require.NoError(t, err)
	c.HeedsContext = true // providerkit obeys the context
	require.Equal(t, c, p.Capabilities())
	_, err = p.Acquire(t.Context(), abstractions.AcquireRequest{Name: "n", ID: "a", Owner: "o", TTL: abstractions.Infinite})
	require.ErrorIs(t, err, abstractions.ErrInvalid)
	_, err = p.Break(t.Context(), abstractions.BreakRequest{Name: "n", Grace: 61 * time.Second})
	require.ErrorIs(t, err, abstractions.ErrInvalid)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	_, err = Open(within(t, -1), Options{})
	require.Error(t, err)
	_, err = OpenURL(t.Context(), "azblob://account")
	require.ErrorIs(t, err, abstractions.ErrInvalid)
}

// T49: a connection string is given instead of the name of its variable. The error does
// not show the string, although it shows a mistyped name.
func TestTrap_T49_BlobConnectionStringInPlaceOfItsVariable(t *testing.T) {
	for _, secret := range []string{
		"DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + canaryKey + ";EndpointSuffix=core.windows.net",
		"AccountKey=" + canaryKey, strings.Repeat(canary, 6), canaryKey + "==", canaryKey + "/" + canaryKey,
		"BlobEndpoint=https://a.blob.core.windows.net;SharedAccessSignature=sv=1&sig=" + canaryKey,
	} {
		_, err := OpenURL(t.Context(), "azblob:///leases?connection_string_env="+url.QueryEscape(secret))
		require.ErrorIs(t, err, abstractions.ErrInvalid)
		require.NotContains(t, err.Error(), canaryKey[:8])
		require.NotContains(t, err.Error(), canary)
		require.ErrorContains(t, err, "connection_string_env")
	}
	_, err := OpenURL(t.Context(), "azblob:///leases?connection_string_env=AZURE_STORAGE_CONNECTION_STRONG")
	require.ErrorContains(t, err, "AZURE_STORAGE_CONNECTION_STRONG")
}
