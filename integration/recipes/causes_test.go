package recipes_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// T189: if the certificate of a server has an unknown authority, the error has the cause as a typed error, on each
// backend that speaks TLS.
func TestTrap_T189_AnUnknownAuthorityIsFound(t *testing.T) {
	const mysqlGreeting = "\x0a8.0.36\x00\x01\x00\x00\x0012345678\x00\x00\x8a\x21\x02\x00\x08\x00\x15" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "123456789012\x00mysql_native_password\x00"
	key := "a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5"
	for name, server := range map[string]struct {
		url   string // has the listener's address for %s
		begin func(net.Conn) error
	}{
		"redis":      {url: "rediss://%s"},
		"postgres":   {"postgres://u:p@%s/db?sslmode=verify-full", acceptTLS},
		"mysql":      {"mysql://u:p@%s/db?tls=true", func(c net.Conn) error { return greet(c, mysqlGreeting) }},
		"etcd":       {url: "etcd://%s/leases?tls=true"},
		"consul":     {url: "consul+https://%s/leases"},
		"kubernetes": {url: "kubernetes://:token@%s/apps"},
		"s3":         {url: "s3://access:secret@bucket/leases?endpoint=https://%s&path_style=true&region=us-east-1"},
		"blob":       {url: "azblob:///leases?connection_string_env=LEASING_TEST_TLS"},
		"cosmos":     {url: "cosmos://:" + key + "@%s/app/leases"},
	} {
		t.Run(name, func(t *testing.T) {
			at := serveUntrusted(t, server.begin)
			t.Setenv("LEASING_TEST_TLS", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey="+key+";BlobEndpoint=https://"+at+"/a")
			url := server.url
			if name != "blob" {
				url = fmt.Sprintf(url, at)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			p, err := openURL(ctx, url)
			if err == nil {
				t.Cleanup(func() { _ = p.Close() })
				_, err = p.Acquire(ctx, abstractions.AcquireRequest{Name: "name", ID: abstractions.NewID(), Owner: "test", TTL: 20 * time.Second})
			}
			require.ErrorIs(t, err, leasing.ErrUnavailable)
			if name == "etcd" { // gRPC reports the cause only as text
				require.ErrorContains(t, err, "certificate signed by unknown authority")
				return
			}
			require.ErrorAs(t, err, new(x509.UnknownAuthorityError))
		})
	}
}

// serveUntrusted serves TLS with a certificate that no client trusts, after begin has exchanged the
// first bytes of a connection.
func serveUntrusted(t *testing.T, begin func(net.Conn) error) (address string) {
	t.Helper()
	if begin == nil {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.EnableHTTP2 = true
		server.StartTLS()
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	certificates := httptest.NewUnstartedServer(nil)
	certificates.StartTLS()
	t.Cleanup(certificates.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if begin(conn) == nil {
					_ = tls.Server(conn, &tls.Config{Certificates: certificates.TLS.Certificates}).Handshake()
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// acceptTLS answers a client of PostgreSQL that requests TLS.
func acceptTLS(conn net.Conn) error {
	if _, err := io.ReadFull(conn, make([]byte, 8)); err != nil {
		return err
	}
	_, err := conn.Write([]byte("S"))
	return err
}

// greet sends the first packet of a MySQL server, and reads the client's request for TLS.
func greet(conn net.Conn, greeting string) error {
	if _, err := conn.Write(append([]byte{byte(len(greeting)), 0, 0, 0}, greeting...)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 36))
	return err
}
