package consullease

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func TestURLsSayWhatTheOptionsSay(t *testing.T) {
	for text, want := range map[string]Options{
		"consul://h:8500":                        {Address: "http://h:8500", Prefix: "leases"},
		"consul://h/":                            {Address: "http://h", Prefix: "leases"},
		"consul://[::1]:1/team%20a/leases":       {Address: "http://[::1]:1", Prefix: "team a/leases"},
		"consul+https://:t%2Fn@h?datacenter=dc2": {Address: "https://h", Prefix: "leases", Datacenter: "dc2", Token: providerkit.NewSecret("t/n")},
		"consul://h?prefix=x&timeout=5s":         {Address: "http://h", Prefix: "x", Timeout: 5 * time.Second},
		"consul://h?retention=2m":                {Address: "http://h", Prefix: "leases", Retention: 2 * time.Minute},
	} {
		o := Options{URL: text}
		require.NoError(t, o.complete(), text)
		if want.Timeout == 0 {
			want.Timeout = 10 * time.Second
		}
		if want.Retention == 0 {
			want.Retention = time.Hour
		}
		require.Equal(t, want, o, text)
	}
}

func TestJSONSaysWhatTheOptionsSay(t *testing.T) {
	var o Options
	require.NoError(t, json.Unmarshal([]byte(`{"address": "https://h", "prefix": "p", "datacenter": "d", "token": "t", "retention": "2h", "timeout": "3s"}`), &o))
	require.Equal(t, Options{Address: "https://h", Prefix: "p", Datacenter: "d", Token: providerkit.NewSecret("t"), Retention: 2 * time.Hour, Timeout: 3 * time.Second}, o)
	require.ErrorIs(t, json.Unmarshal([]byte(`{"addresses": "b"}`), &o), abstractions.ErrInvalid)
}

func TestOptionsThatCannotWork(t *testing.T) {
	for _, o := range []Options{
		{Address: "h:8500"},
		{Address: "ftp://h"},
		{Address: "http://:geheim@h"},
		{Address: "http://h/path"},
		{Prefix: "/p"},
		{Prefix: "p/"},
		{Prefix: "p/../q"},
		{Token: providerkit.NewSecret("geheim\nX: y")},
		{Retention: time.Second},
		{URL: "consul://"},
		{URL: "etcd://h"},
		{URL: "consul://h", Address: "http://h"},
		{URL: "consul://h/p", Prefix: "q"},
		{URL: "consul://user:geheim@h"},
		{URL: "consul://:geheim@h", Token: providerkit.NewSecret("geheim")},
		{URL: "consul://h?token=geheim"},
		{URL: "consul://h?dc=geheim"},
	} {
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, abstractions.ErrInvalid, o)
		require.NotContains(t, err.Error(), "geheim", o)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := OpenURL(ended, "consul://h")
	require.ErrorIs(t, err, context.Canceled)
}

// Each request has the token and the datacenter.
func TestRequestsSayTokenAndDatacenter(t *testing.T) {
	p, w := openOverWire(t, Options{URL: "consul://:t@h?datacenter=dc2"})
	sent := 0
	*w = func(req *http.Request, _ faulttest.Sender) (*http.Response, error) {
		sent++
		require.Equal(t, "t", req.Header.Get("X-Consul-Token"))
		require.Equal(t, "dc2", req.URL.Query().Get("dc"))
		return agentAnswer(req, http.StatusNotFound, ""), nil
	}
	_, _ = p.Acquire(t.Context(), acquireRequest("a", time.Minute))
	_, _ = p.List(t.Context(), abstractions.ListRequest{})
	require.Equal(t, 4, sent, "two reads, a write, a list")
}

// A provider limits its connections, since an agent refuses a machine that opens many.
func TestAProviderOpensFewConnections(t *testing.T) {
	p := openUnprobed(t, Options{})
	require.Equal(t, connections, p.driver.store.client.Transport().MaxConnsPerHost)
}

// T49, T75: options, providers and errors show no secret, however they are printed.
func TestTrap_T49_SecretsAreNotShown(t *testing.T) {
	const secret = "s3cr3t-0f-the-token"
	var shown credentialtest.Shown
	for _, o := range []Options{
		{URL: "consul://:" + secret + "@127.0.0.1:1"},
		{URL: "consul://:" + secret + "@127.0.0.1:1?token=" + secret},
		{Address: "http://127.0.0.1:1", Token: providerkit.NewSecret(secret)},
		{Address: "http://:" + secret + "@127.0.0.1:1"},
	} {
		p, err := Open(t.Context(), o)
		require.Error(t, err)
		shown.Show(o, &o, p, err)
	}
	p := openUnprobed(t, Options{Address: "http://127.0.0.1:1", Token: providerkit.NewSecret(secret)})
	shown.Show(p)
	shown.Hides(t, secret)
}
