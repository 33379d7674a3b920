package cosmoslease

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/auth"
	"github.com/stretchr/testify/require"
)

func validOptions() Options {
	return Options{Endpoint: "https://a.documents.azure.com:443/", Key: testKey, Database: "db", Container: "c"}
}

func TestBadOptionsAreInvalidAndSayWhich(t *testing.T) {
	for _, test := range []struct {
		field  string
		change func(o *Options)
	}{
		{"Options", func(o *Options) { o.Endpoint = "" }},
		{"Options", func(o *Options) { o.URL = "cosmos://:a2V5@h/db/c" }},
		{"Options", func(o *Options) { o.ConnectionString = "AccountEndpoint=https://h;AccountKey=a2V5" }},
		{"Options", func(o *Options) { o.Key = "" }},
		{"Options", func(o *Options) { o.Credential = goodToken{} }},
		{"Options", func(o *Options) { o.Auth.Mode = auth.Auto }},
		{"Options.Endpoint", func(o *Options) { o.Endpoint = "a.documents.azure.com" }},
		{"Options.Endpoint", func(o *Options) { o.Endpoint = "http://a.documents.azure.com" }},
		{"Options.Endpoint", func(o *Options) { o.Endpoint = "https://a.documents.azure.com/db" }},
		{"Options.Endpoint", func(o *Options) { o.Endpoint = "https://user:password@a.documents.azure.com" }},
		{"Options.Endpoint", func(o *Options) { o.Endpoint = "ftp://127.0.0.1" }},
		{"Options.Key", func(o *Options) { o.Key = "not base64" }},
		{"Options.Database", func(o *Options) { o.Database = "" }},
		{"Options.Database", func(o *Options) { o.Database = "a/b" }},
		{"Options.Container", func(o *Options) { o.Container = "" }},
		{"Options.Container", func(o *Options) { o.Container = "a\nb" }},
		{"Options.Container", func(o *Options) { o.Container = strings.Repeat("x", 256) }},
		{"Options.PartitionKeyPath", func(o *Options) { o.PartitionKeyPath = "id" }},
		{"Options.PartitionKeyPath", func(o *Options) { o.PartitionKeyPath = "/lease" }},
		{"Options.PartitionKeyPath", func(o *Options) { o.PartitionKeyPath = "/a//b" }},
		{"Options.Throughput", func(o *Options) { o.Throughput = 400 }},
		{"Options.Throughput", func(o *Options) { o.Throughput, o.Create = 100, true }},
		{"Options.Throughput", func(o *Options) { o.Throughput, o.Create = -1, true }},
		{"Options.Autoscale", func(o *Options) { o.Autoscale, o.Create = true, true }},
		{"Options.Prefix", func(o *Options) { o.Prefix = strings.Repeat("x", 51) }},
		{"Options.Prefix", func(o *Options) { o.Prefix = "a\x00" }},
		{"Options.Retention", func(o *Options) { o.Retention = time.Second }},
		{"Options.Retention", func(o *Options) { o.Retention = -1 }},
		{"Options.ExpireDocuments", func(o *Options) { o.ExpireDocuments, o.Retention = true, abstractions.Infinite }},
		{"Options.Timeout", func(o *Options) { o.Timeout = -1 }},
		{"Options.ClockSkew", func(o *Options) { o.ClockSkew = time.Hour }},
		{"Options.Consistency", func(o *Options) { o.Consistency = "Eventual" }},
		{"Options.Consistency", func(o *Options) { o.Consistency = "session" }},
	} {
		o := validOptions()
		test.change(&o)
		_, err := Open(t.Context(), o)
		var invalid *abstractions.InvalidError
		require.ErrorAs(t, err, &invalid, test.field)
		require.Equal(t, test.field, invalid.Field)
		require.NotEmpty(t, invalid.Want)
	}
	o := validOptions()
	o.Key, o.Auth.Mode = "", auth.ServicePrincipal
	_, err := Open(t.Context(), o)
	require.ErrorIs(t, err, abstractions.ErrInvalid, "package auth's")
}

func TestOptionsAreReadFromURLs(t *testing.T) {
	for url, want := range map[string]Options{
		"cosmos://:a%2FbcdA%3D%3D@acc.documents.azure.com/db/leases": {Endpoint: "https://acc.documents.azure.com", Key: "a/bcdA==", Database: "db", Container: "leases"},
		"cosmos://acc.documents.azure.com:443/db/my%20leases?auth=managedidentity": {
			Endpoint: "https://acc.documents.azure.com:443", Database: "db", Container: "my leases", Auth: auth.Options{Mode: auth.ManagedIdentity},
		},
		"cosmos+http://:a2V5@127.0.0.1:8081/db/c?create=true&throughput=400&autoscale=false&prefix=a%2Fb&retention=forever&timeout=3s" +
			"&clock_skew=1s&consistency=Session&allow_multiple_write_regions=true&partition_key_path=%2Fpk": {
			Endpoint: "http://127.0.0.1:8081", Key: "a2V5", Database: "db", Container: "c", Create: true, Throughput: 400, Prefix: "a/b",
			Retention: abstractions.Infinite, Timeout: 3 * time.Second, ClockSkew: time.Second, Consistency: "Session", AllowMultipleWriteRegions: true, PartitionKeyPath: "/pk",
		},
		"cosmos://:a2V5@h?database=db&container=c&expire_documents=true": {Endpoint: "https://h", Key: "a2V5", Database: "db", Container: "c", ExpireDocuments: true},
	} {
		got := Options{URL: url}
		require.NoError(t, got.readURL(), url)
		require.Equal(t, want, got)
		p, err := OpenURL(t.Context(), url)
		require.NoError(t, err)
		require.NoError(t, p.Close())
	}
}

func TestBadURLsAreInvalid(t *testing.T) {
	for _, url := range []string{
		"https://h/db/c", "cosmos:h", "cosmos://h/db", "cosmos://h/db/c/d", "cosmos://h//c", "cosmos://user@h/db/c", "cosmos://user:key@h/db/c",
		"cosmos://:@h/db/c", "cosmos://:%zz@h/db/c", "cosmos://:a2V5@h/db/c?nothing=1", "cosmos://:a2V5@h/db/c?create=yes", "cosmos://:a2V5@h/db/c?retention=1",
		"cosmos://:a2V5@h/db/c?create=true&create=true", "cosmos://:a2V5@h/db/c#x", "cosmos+http://:a2V5@h/db/c", "cosmos://h/db/c?auth=nothing",
		"cosmos://h/db/c", "cosmos://:a2V5@h/db/c?auth=Auto", "cosmos://:a2V5@h/db/c?key=x", "cosmos://:a2V5@h/db/c?throughput=x", "cosmos://",
	} {
		_, err := OpenURL(t.Context(), url)
		require.ErrorIs(t, err, abstractions.ErrInvalid, url)
	}
	_, err := Open(t.Context(), Options{URL: "cosmos://:a2V5@h/db/c", Key: testKey})
	require.ErrorIs(t, err, abstractions.ErrInvalid, "two keys")
	_, err = Open(t.Context(), Options{URL: "cosmos://:a2V5@h/db/c", Database: "other"})
	require.ErrorIs(t, err, abstractions.ErrInvalid, "two databases")
	_, err = Open(t.Context(), Options{URL: "cosmos://h/db/c?auth=Auto", Auth: auth.Options{Mode: auth.ManagedIdentity}})
	require.ErrorIs(t, err, abstractions.ErrInvalid, "two modes")
}

func TestConnectionStrings(t *testing.T) {
	for _, text := range []string{
		"AccountEndpoint=https://a.documents.azure.com:443/;AccountKey=" + testKey + ";",
		"accountkey=" + testKey + ";accountendpoint=https://a.documents.azure.com:443/",
	} {
		got := Options{ConnectionString: text, Database: "db", Container: "c"}
		require.NoError(t, got.readConnectionString())
		require.Equal(t, validOptions(), got)
		p, err := Open(t.Context(), Options{ConnectionString: text, Database: "db", Container: "c"})
		require.NoError(t, err)
		require.NoError(t, p.Close())
	}
	for _, text := range []string{"x", "AccountEndpoint=https://h", "AccountKey=" + testKey, "AccountEndpoint=https://h;AccountKey=;", "AccountEndpoint=https://h;AccountKey"} {
		_, err := Open(t.Context(), Options{ConnectionString: text, Database: "db", Container: "c"})
		require.ErrorIs(t, err, abstractions.ErrInvalid, text)
	}
	_, err := Open(t.Context(), Options{ConnectionString: "AccountEndpoint=https://h;AccountKey=" + testKey, Key: testKey, Database: "db", Container: "c"})
	require.ErrorIs(t, err, abstractions.ErrInvalid, "a key beside it")
}

func TestOptionsAreReadFromJSON(t *testing.T) {
	var o Options
	require.NoError(t, json.Unmarshal([]byte(`{
		"endpoint": "https://h", "database": "db", "container": "c", "auth": {"mode": "ManagedIdentity", "managed_identity": {"client_id": "id"}},
		"retention": "forever", "timeout": "3s", "clock_skew": "1s", "create": true, "throughput": 400
	}`), &o))
	require.Equal(t, Options{
		Endpoint: "https://h", Database: "db", Container: "c",
		Auth:      auth.Options{Mode: auth.ManagedIdentity, ManagedIdentity: auth.ManagedIdentityOptions{ClientID: "id"}},
		Retention: abstractions.Infinite, Timeout: 3 * time.Second, ClockSkew: time.Second, Create: true, Throughput: 400,
	}, o)
	for _, text := range []string{
		`{"nothing": 1}`, `{"retention": 3}`, `{"retention": "x"}`, `[]`, `{"auth": {"mode": "nothing"}}`, `{"auth": {"nothing": 1}}`,
	} {
		require.ErrorIs(t, json.Unmarshal([]byte(text), &Options{}), abstractions.ErrInvalid, text)
	}
}

func TestDefaults(t *testing.T) {
	o := validOptions()
	require.NoError(t, o.complete())
	require.Equal(t, time.Hour, o.Retention)
	require.Equal(t, 10*time.Second, o.Timeout)
	require.Equal(t, 2*time.Second, o.ClockSkew)
	require.Equal(t, 6*time.Second, openTest(t, validOptions()).Capabilities().Lateness.Fixed)
	require.True(t, openTest(t, validOptions()).Capabilities().ReadsMayLag)
}

// Names are encoded into document IDs after the prefix, as documented.
func TestTrap_T25_IDsOfDocuments(t *testing.T) {
	require.Equal(t, "jobs~2Fdaily", naming("").Encode("jobs/daily"))
	require.Equal(t, "team~2Fone:jobs~2Fdaily", naming("team/one").Encode("jobs/daily"))
	longest := naming(strings.Repeat("é", 25)).Encode(strings.Repeat("é", 256))
	require.Less(t, len(longest), 1023)
	require.False(t, strings.ContainsAny(longest, `/\?#% `))
}
