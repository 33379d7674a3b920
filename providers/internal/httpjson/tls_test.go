package httpjson

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

func TestCertificatesFromFiles(t *testing.T) {
	files, err := servertest.NewCertificate(t.TempDir())
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	for _, c := range []struct {
		ca, cert, key string
		in            bool
	}{{files.Cert, files.Cert, files.Key, true}, {files.Cert, "", "", false}, {"", files.Cert, files.Key, false}} {
		client := New(server.URL, nil, func(*http.Request) error { return nil })
		require.NoError(t, client.TLS(c.ca, c.cert, c.key))
		_, err := client.Do(t.Context(), http.MethodGet, "/", nil, nil, nil)
		require.Equal(t, c.in, StatusOf(err) == http.StatusNotFound, "%v: %v", c, err)
		client.Close()
	}
	client := New(server.URL, nil, nil)
	require.ErrorIs(t, client.TLS(os.DevNull, "", ""), abstractions.ErrInvalid)
	require.ErrorIs(t, client.TLS("", files.Cert, files.Cert), abstractions.ErrInvalid)
}
