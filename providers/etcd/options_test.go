package etcdlease

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func TestOptionsOfAURL(t *testing.T) {
	o := Options{URL: "etcd://app:p%2Fw@host1,host2:4000,[::1]/a/b?tls=true&timeout=3s"}
	require.NoError(t, o.complete())
	require.Equal(t, []string{"host1:2379", "host2:4000", "[::1]:2379"}, o.Endpoints)
	require.Equal(t, "a/b", o.Prefix)
	require.Equal(t, "app", o.Username)
	require.Equal(t, "p/w", o.Password.Reveal())
	require.True(t, o.TLS)
	require.Equal(t, 3*time.Second, o.Timeout)
	require.Equal(t, providerkit.DefaultRetention, o.Retention)
	text, err := json.Marshal(o)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%v %+v %s", o, o, text), "p/w")
}

func TestOptionsOfJSON(t *testing.T) {
	var o Options
	require.NoError(t, json.Unmarshal([]byte(`{"endpoints": ["host"], "ca_file": "ca.pem", "username": "app", "password": "secret"}`), &o))
	require.NoError(t, o.complete())
	require.True(t, o.TLS, "a file sets it")
	require.Equal(t, "leases", o.Prefix)
	require.Equal(t, "secret", o.Password.Reveal())
}

func TestOptionsThatCantBe(t *testing.T) {
	for _, o := range []Options{
		{},
		{URL: "etcd:///leases"},
		{URL: "etcd://host", Endpoints: []string{"other"}},
		{URL: "etcd://host/p", Prefix: "q"},
		{URL: "etcd://host?password=hunter2"},
		{URL: "etcd://host?nonsense=1"},
		{URL: "http://host"},
		{Endpoints: []string{"http://host"}},
		{Endpoints: []string{""}},
		{Endpoints: []string{"host"}, Prefix: "/p"},
		{Endpoints: []string{"host"}, Username: "app"},
		{Endpoints: []string{"host"}, Password: providerkit.NewSecret("hunter2")},
		{Endpoints: []string{"host"}, CertFile: "cert.pem"},
		{Endpoints: []string{"host"}, CAFile: "/no/such/file"},
		{Endpoints: []string{"host"}, Client: &clientv3.Client{}},
		{Endpoints: []string{"host"}, Retention: time.Second},
	} {
		_, err := Open(t.Context(), o)
		require.ErrorIs(t, err, abstractions.ErrInvalid, "%v", o)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// Close of a provider leaves the application's own client open.
func TestAClientOfOnesOwn(t *testing.T) {
	mine := open(t, Options{URL: serverURL(t)})
	p, err := Open(t.Context(), Options{Client: mine.driver.store.client, Prefix: abstractions.NewID()})
	require.NoError(t, err)
	acquire(t, p, "n", "a", time.Minute)
	require.NoError(t, p.Close())
	require.NoError(t, mine.Ping(t.Context()))
}
