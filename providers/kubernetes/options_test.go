package kuberneteslease

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func TestURLsSayWhatTheOptionsSay(t *testing.T) {
	for text, want := range map[string]Options{
		"kubernetes://h:6443/apps":                   {Address: "https://h:6443", Namespace: "apps"},
		"kubernetes://:t%2Fn@[::1]:1/apps":           {Address: "https://[::1]:1", Namespace: "apps", Token: providerkit.NewSecret("t/n")},
		"kubernetes://h/apps?timeout=5s&ca_file=/ca": {Address: "https://h", Namespace: "apps", CAFile: "/ca", Timeout: 5 * time.Second},
		"kubernetes://h?namespace=a&retention=2m":    {Address: "https://h", Namespace: "a", Retention: 2 * time.Minute},
		"kubernetes://h/a?cert_file=/c&key_file=/k":  {Address: "https://h", Namespace: "a", CertFile: "/c", KeyFile: "/k"},
		"kubernetes://h/a?clock_skew=10s":            {Address: "https://h", Namespace: "a", ClockSkew: 10 * time.Second},
	} {
		o := Options{URL: text}
		require.NoError(t, o.complete(), text)
		want.Timeout, want.Retention = cmp.Or(want.Timeout, 10*time.Second), cmp.Or(want.Retention, time.Hour)
		want.ClockSkew = cmp.Or(want.ClockSkew, 2*time.Second)
		require.Equal(t, want, o, text)
	}
}

// A pod needs no options.
func TestPods(t *testing.T) {
	before := account
	account = t.TempDir()
	t.Cleanup(func() { account = before })
	for name, text := range map[string]string{"namespace": "apps\n", "token": "of-the-account\n", "ca.crt": "-"} {
		require.NoError(t, os.WriteFile(filepath.Join(account, name), []byte(text), 0o600))
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "6443")
	for _, o := range []Options{{}, {URL: "kubernetes://"}, {URL: "kubernetes:///apps"}} {
		require.NoError(t, o.complete())
		require.Equal(t, "https://[fd00::1]:6443", o.Address)
		require.Equal(t, "apps", o.Namespace)
		require.Equal(t, filepath.Join(account, "ca.crt"), o.CAFile)
		token, err := o.bearer()()
		require.NoError(t, err)
		require.Equal(t, "of-the-account", token)
	}
	o := Options{URL: "kubernetes:///others", Token: providerkit.NewSecret("t")}
	require.NoError(t, o.complete())
	require.Equal(t, "others", o.Namespace)
	require.Empty(t, o.TokenFile)

	// If an option names another server, the pod's token is not sent to that server.
	o = Options{Address: "https://elsewhere"}
	require.NoError(t, o.complete())
	require.Empty(t, o.TokenFile+o.CAFile)
	require.Equal(t, "apps", o.Namespace)
}

func TestJSONSaysWhatTheOptionsSay(t *testing.T) {
	var o Options
	require.NoError(t, json.Unmarshal([]byte(`{"address": "https://h", "namespace": "n", "token_file": "f", "retention": "2h", "timeout": "3s"}`), &o))
	require.Equal(t, Options{Address: "https://h", Namespace: "n", TokenFile: "f", Retention: 2 * time.Hour, Timeout: 3 * time.Second}, o)
	require.ErrorIs(t, json.Unmarshal([]byte(`{"addresses": "b"}`), &o), abstractions.ErrInvalid)
}

func TestOptionsThatCannotWork(t *testing.T) {
	const address = "https://h"
	for _, o := range []Options{
		{},
		{Address: address},
		{Namespace: "a"},
		{Address: "h:6443", Namespace: "a"},
		{Address: "ftp://h", Namespace: "a"},
		{Address: "http://:geheim@h", Namespace: "a"},
		{Address: "https://h?x=y", Namespace: "a"},
		{Address: address, Namespace: "A"},
		{Address: address, Namespace: "a/b"},
		{Address: address, Namespace: "a.b"},
		{Address: address, Namespace: strings.Repeat("a", 64)},
		{Address: address, Namespace: "a", Token: providerkit.NewSecret("geheim\nX: y")},
		{Address: address, Namespace: "a", Token: providerkit.NewSecret("geheim"), TokenFile: "f"},
		{Address: address, Namespace: "a", CertFile: "c"},
		{Address: address, Namespace: "a", CAFile: os.DevNull},
		{Address: address, Namespace: "a", CertFile: os.DevNull, KeyFile: os.DevNull},
		{Address: address, Namespace: "a", CAFile: "c", Client: http.DefaultClient},
		{Address: address, Namespace: "a", Retention: time.Second},
		{Address: address, Namespace: "a", ClockSkew: time.Hour},
		{URL: "etcd://h/a"},
		{URL: "kubernetes://h/a", Address: address},
		{URL: "kubernetes://h/a", Namespace: "b"},
		{URL: "kubernetes://user:geheim@h/a"},
		{URL: "kubernetes://:geheim@h/a", Token: providerkit.NewSecret("geheim")},
		{URL: "kubernetes://h/a?token=geheim"},
		{URL: "kubernetes://h/a?prefix=geheim"},
	} {
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, abstractions.ErrInvalid, o)
		require.NotContains(t, err.Error(), "geheim", o)
	}
	_, err := Open(t.Context(), Options{Address: address, Namespace: "a", TokenFile: "/nonexistent"})
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = OpenURL(ended, "kubernetes://h/a")
	require.ErrorIs(t, err, context.Canceled)
}

// T25: names become object names that Kubernetes accepts, and different names get
// different object names. A name that Kubernetes accepts is kept: client-go's candidates may use the same name.
func TestTrap_T25_NamesOfObjects(t *testing.T) {
	names := []string{
		"my-controller", "a", "a.b", "x--y", strings.Repeat("a", 253), // kept
		"jobs/daily", "Jobs/Daily", "jobs-daily ", "a..b", "-", ".", "a-", "-a", "a.-b", "ü", "..", "%2F", strings.Repeat("a", 254), strings.Repeat("a", 255), strings.Repeat("/", 512),
	}
	names = append(names, encode("jobs/daily"))
	seen := map[string]string{}
	for i, name := range names {
		key := encode(name)
		require.Equal(t, i < 5, key == name, name)
		require.LessOrEqual(t, len(key), 253)
		require.Regexp(t, subdomain, key)
		require.Empty(t, seen[key], "%q and %q", name, seen[key])
		seen[key] = name
	}
	require.Equal(t, "jobs-daily--66bfde524f3da665edcd120c92593ece", encode("jobs/daily"), "what is stored stays where it is")
}

// T49, T75: options, providers and errors show no secret, however they are printed.
func TestTrap_T49_SecretsAreNotShown(t *testing.T) {
	var shown credentialtest.Shown
	for _, o := range []Options{
		{URL: "kubernetes://:" + secret + "@127.0.0.1:1/a"},
		{URL: "kubernetes://:" + secret + "@127.0.0.1:1/a?token=" + secret},
		{Address: "http://127.0.0.1:1", Namespace: "a", Token: providerkit.NewSecret(secret)},
		{Address: "http://:" + secret + "@127.0.0.1:1", Namespace: "a"},
	} {
		p, err := Open(t.Context(), o)
		require.Error(t, err)
		shown.Show(o, &o, p, err)
	}
	p := openUnprobed(t, Options{Address: "http://127.0.0.1:1", Namespace: "a", Token: providerkit.NewSecret(secret)})
	shown.Show(p)
	shown.Hides(t, secret)
}
