package s3lease

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func TestURLsSayWhatTheOptionsSay(t *testing.T) {
	for text, want := range map[string]Options{
		"s3://bucket":  {Bucket: "bucket", Prefix: "leases"},
		"s3://bucket/": {Bucket: "bucket", Prefix: "leases"},
		"s3://bucket/team%20a/leases?region=eu-west-1":  {Bucket: "bucket", Prefix: "team a/leases", Region: "eu-west-1"},
		"s3://bucket?prefix=x&timeout=5s":               {Bucket: "bucket", Prefix: "x", Timeout: 5 * time.Second},
		"s3://key:s%2Fe%2Bt@bucket?access_key=":         {Bucket: "bucket", Prefix: "leases", AccessKey: "key", SecretKey: providerkit.NewSecret("s/e+t")},
		"s3://b?endpoint=http://[::1]:1&path_style=1":   {Bucket: "b", Prefix: "leases", Endpoint: "http://[::1]:1", PathStyle: true},
		"s3://b?endpoint=https%3A%2F%2Fh&clock_skew=1s": {Bucket: "b", Prefix: "leases", Endpoint: "https://h", ClockSkew: time.Second},
	} {
		o := Options{URL: text}
		require.NoError(t, o.complete(), text)
		want.ClockSkew, want.Timeout = max(want.ClockSkew, o.ClockSkew), max(want.Timeout, o.Timeout)
		require.Equal(t, want, o, text)
	}
}

func TestJSONSaysWhatTheOptionsSay(t *testing.T) {
	var o Options
	require.NoError(t, json.Unmarshal([]byte(`{"bucket": "b", "prefix": "p", "region": "r", "endpoint": "https://h", "path_style": true,
		"access_key": "k", "secret_key": "s", "session_token": "t", "clock_skew": "1s", "timeout": "3s"}`), &o))
	require.Equal(t, Options{
		Bucket: "b", Prefix: "p", Region: "r", Endpoint: "https://h", PathStyle: true, AccessKey: "k", SecretKey: providerkit.NewSecret("s"),
		SessionToken: providerkit.NewSecret("t"), ClockSkew: time.Second, Timeout: 3 * time.Second,
	}, o)
	require.ErrorIs(t, json.Unmarshal([]byte(`{"buckets": "b"}`), &o), abstractions.ErrInvalid)
}

func TestOptionsThatCannotWork(t *testing.T) {
	key, secret := "k", providerkit.NewSecret("geheim")
	for _, o := range []Options{
		{},
		{Bucket: "a/b"},
		{Bucket: "b", Prefix: "/p"},
		{Bucket: "b", Prefix: "p/"},
		{Bucket: "b", Prefix: "p/../q"},
		{Bucket: "b", Endpoint: "host:9000"},
		{Bucket: "b", Endpoint: "https://k:geheim@host"},
		{Bucket: "b", AccessKey: key},
		{Bucket: "b", SecretKey: secret},
		{Bucket: "b", SessionToken: secret},
		{Bucket: "b", AccessKey: key, SecretKey: secret}, // no region
		{Bucket: "b", Client: s3.New(s3.Options{}), Region: "r"},
		{Bucket: "b", ClockSkew: time.Hour},
		{Bucket: "b", URL: "s3://b"},
		{URL: "s3://b/p?prefix=q"},
		{URL: "s3:///p"},
		{URL: "s4://b"},
		{URL: "s3://k:geheim@b", AccessKey: key, SecretKey: secret},
		{URL: "s3://b?secret_key=geheim"},
		{URL: "s3://b?bucket=c"},
	} {
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, abstractions.ErrInvalid, o)
		require.NotContains(t, err.Error(), "geheim", o)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := OpenURL(ended, "s3://b")
	require.ErrorIs(t, err, context.Canceled)
}

// T49, T75: options, providers and errors show no secret, however they are printed.
func TestTrap_T49_SecretsAreNotShown(t *testing.T) {
	const secret = "s3cr3t/0f+the=account"
	var shown credentialtest.Shown
	u, err := url.Parse(serverURL(t, servers["versitygw"])) // the server refuses the secret
	require.NoError(t, err)
	u.User = url.UserPassword("leasing", secret)
	written := fmt.Sprintf("s3://leasing:%s@%s?%s", url.QueryEscape(secret), u.Host, u.RawQuery)
	for _, o := range []Options{
		{URL: written}, {URL: "s3://leasing:" + secret + "@bucket"}, {URL: written + "&secret_key=" + secret},
		{Bucket: "leasing", Endpoint: u.Query().Get("endpoint"), PathStyle: true, AccessKey: "leasing", SecretKey: providerkit.NewSecret(secret), SessionToken: providerkit.NewSecret(secret)},
	} {
		p, err := Open(t.Context(), o)
		require.Error(t, err)
		shown.Show(o, &o, p, err)
	}
	p := openUnprobed(t, Options{URL: written})
	_, err = p.Acquire(t.Context(), acquireRequest("a", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrDenied)
	shown.Show(p, err)
	shown.Hides(t, secret, url.QueryEscape(secret))
}
