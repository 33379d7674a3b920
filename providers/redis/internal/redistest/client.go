package redistest

import (
	"crypto/tls"
	"net/url"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// URL returns the server's address with the default user's password, in the form of
// redis.ParseURL: "redis://:password@127.0.0.1:port/0", or rediss.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr(), Path: "/0"}
	if s.tls != nil {
		u.Scheme = "rediss"
	}
	if s.options.Password != "" {
		u.User = url.UserPassword("", s.options.Password)
	}
	return u.String()
}

// Client returns a new client of the server, as the default user, that makes one
// attempt and obeys its contexts. It is closed when t ends; the caller may close it
// earlier.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	client := s.newClient("", s.options.Password)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (s *Server) newClient(user, password string) *redis.Client {
	return redis.NewClient(s.clientOptions(user, password))
}

func (s *Server) clientOptions(user, password string) *redis.Options {
	return &redis.Options{
		Addr:                     s.Addr(),
		Username:                 user,
		Password:                 password,
		TLSConfig:                s.TLSConfig(),
		ContextTimeoutEnabled:    true,
		MaxRetries:               -1,
		DialerRetries:            1,
		MaintNotificationsConfig: noNotifications(),
	}
}

// noNotifications keeps go-redis from requesting a feature of Redis Enterprise.
func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// TLSConfig returns a new configuration that trusts only the server's certificate, or nil
// for a server without TLS.
func (s *Server) TLSConfig() *tls.Config { return s.tls.Trust() }
