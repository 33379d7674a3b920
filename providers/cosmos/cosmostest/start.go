package cosmostest

import (
	"crypto/rand"
	"encoding/base64"
	"net/http/httptest"
	"net/url"
	"testing"
)

// Server is an account on a loopback port.
type Server struct {
	*Account
	// URL is the URL of the database app and the container leases, with the account's
	// key, for cosmoslease.OpenURL.
	URL string
	// Endpoint and Key are the account's address and key, for another client.
	Endpoint, Key string
}

// Start starts an account with the container app/leases. The account stops when the test
// ends.
func Start(t testing.TB) *Server {
	t.Helper()
	key := NewKey()
	account := New(Options{Key: key})
	account.AddContainer("app", "leases", "/id")
	server := httptest.NewServer(account)
	t.Cleanup(server.Close)
	return &Server{account, LeaseURL(server.Listener.Addr().String(), key, "app/leases"), server.URL, key}
}

// NewKey makes a random key.
func NewKey() string {
	var key [32]byte
	rand.Read(key[:])
	return base64.StdEncoding.EncodeToString(key[:])
}

// LeaseURL returns the URL for cosmoslease.OpenURL. The address is host:port, and the
// container is database/container.
func LeaseURL(address, key, container string) string {
	return "cosmos+http://:" + url.QueryEscape(key) + "@" + address + "/" + container
}
