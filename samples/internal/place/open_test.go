package place_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/samples/internal/place"
)

func TestOpenOnSQLite(t *testing.T) {
	opens(t, "sqlite", "sqlite://"+filepath.ToSlash(filepath.Join(t.TempDir(), "leases.db"))+"?create=true")
}

func TestOpenOnPostgres(t *testing.T) {
	p, clear, err := place.SetUp(t.Context(), "test", server(t, "LEASING_TEST_POSTGRES"))
	require.NoError(t, err)
	defer func() { require.NoError(t, clear()) }()
	opens(t, "postgres", p.Leases)
}

func TestOpenOnRedis(t *testing.T)   { opens(t, "redis", server(t, "LEASING_TEST_REDIS")) }
func TestOpenOnRedlock(t *testing.T) { opens(t, "redlock", server(t, "LEASING_TEST_REDLOCK")) }
func TestOpenOnCosmos(t *testing.T) {
	opens(t, "cosmos", server(t, "LEASING_TEST_COSMOS")+"?create=true")
}

func TestOpenOnS3(t *testing.T) { opens(t, "s3", server(t, "LEASING_TEST_S3")) }

func TestOpenOnEtcd(t *testing.T) { opens(t, "etcd", server(t, "LEASING_TEST_ETCD")) }

func TestOpenOnBlob(t *testing.T) {
	server(t, "LEASING_TEST_AZURITE")
	opens(t, "blob", "azblob:///place-test?create=true&connection_string_env=LEASING_TEST_AZURITE")
}

// opens opens a URL and asks its backend whether it answers.
func opens(t *testing.T, name, rawURL string) {
	t.Helper()
	provider, err := place.Open(t.Context(), rawURL)
	require.NoError(t, err)
	defer provider.Close()
	require.Equal(t, name, provider.Capabilities().Provider)
	pinger, ok := abstractions.As[abstractions.Pinger](provider)
	require.True(t, ok)
	require.NoError(t, pinger.Ping(t.Context()))
}

func TestOpenRefusesWhatItDoesNotKnowWithoutItsPassword(t *testing.T) {
	for _, url := range []string{"oracle://me:geheim@host/db", "geheim", "memory://", "postgres://me:geheim@host:port/"} {
		provider, err := place.Open(t.Context(), url)
		require.Error(t, err, url)
		require.Nil(t, provider, url)
		require.NotContains(t, err.Error(), "geheim", url)
	}
	_, err := place.Open(t.Context(), "oracle://host")
	require.ErrorContains(t, err, `"oracle": want one that begins with postgres://`)
}
