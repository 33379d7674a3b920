//go:build unix

package postgreslease

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// secureServer is a server that requires a certificate from the user app, and a password from the user pw.
type secureServer struct {
	*servertest.Postgres
	files servertest.Pair
}

func newSecureServer(t *testing.T, a *servertest.Authority) *secureServer {
	t.Helper()
	s := &secureServer{Postgres: servertest.NewPostgres(t)}
	var err error
	s.files, err = servertest.NewPair(s.Dir, "server", a, a)
	require.NoError(t, err)
	s.chown()
	s.exec(t, "CREATE ROLE app LOGIN SUPERUSER", "CREATE ROLE pw LOGIN SUPERUSER PASSWORD 'one'", "ALTER SYSTEM SET ssl = on",
		"ALTER SYSTEM SET ssl_ca_file = '"+s.files.CA+"'", "ALTER SYSTEM SET ssl_cert_file = '"+s.files.Cert+"'",
		"ALTER SYSTEM SET ssl_key_file = '"+s.files.Key+"'")
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir, "data", "pg_hba.conf"), []byte(
		"host all postgres 127.0.0.1/32 trust\nhostssl all app 127.0.0.1/32 cert\nhost all pw 127.0.0.1/32 scram-sha-256\n"), 0o600))
	require.NoError(t, s.Crash(t.Context()))
	return s
}

// chown makes the server's operating system user the owner of the files.
func (s *secureServer) chown() {
	info, err := os.Stat(s.Dir)
	require.NoError(s.T, err)
	as := info.Sys().(*syscall.Stat_t)
	for _, path := range []string{s.files.CA, s.files.Cert, s.files.Key} {
		require.NoError(s.T, os.Chown(path, int(as.Uid), int(as.Gid)))
	}
}

func (s *secureServer) exec(t *testing.T, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, statement := range statements {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
}

// hangUp closes the connections of the users.
func (s *secureServer) hangUp(t *testing.T) {
	s.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename IN ('app', 'pw')")
}

func (s *secureServer) open(t *testing.T, user string, parameters url.Values) *Provider {
	t.Helper()
	parameters.Set("create", "true")
	p, err := OpenURL(t.Context(), fmt.Sprintf("postgres://%s@%s/postgres?%s", user, s.Addr(), parameters.Encode()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// T122: pgx reads the files of a URL only once, when it parses the URL.
func TestTrap_T122_FilesOfTheURLAreReadAgain(t *testing.T) {
	first, err := servertest.NewAuthority()
	require.NoError(t, err)
	second, err := servertest.NewAuthority()
	require.NoError(t, err)
	s := newSecureServer(t, first)
	t.Run("TLS", func(t *testing.T) {
		client, err := servertest.NewPair(t.TempDir(), "app", first, first)
		require.NoError(t, err)
		p := s.open(t, "app", url.Values{"sslmode": {"verify-full"}, "sslrootcert": {client.CA}, "sslcert": {client.Cert}, "sslkey": {client.Key}})
		credentialtest.OutlivesRotation(t, p, func() {
			require.NoError(t, s.files.Replace("server", second, second))
			s.chown()
			require.NoError(t, client.Replace("app", second, second))
			require.NoError(t, s.Crash(t.Context()))
		})
		credentialtest.OutlivesRotation(t, p, func() { // the key is missing for a while
			require.NoError(t, os.Rename(client.Key, client.Key+".gone"))
			s.hangUp(t)
		})
	})
	t.Run("password", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "pgpass")
		write := func(password string) {
			require.NoError(t, os.WriteFile(file, []byte("*:*:*:pw:"+password+"\n"), 0o600))
		}
		write("one")
		p := s.open(t, "pw", url.Values{"sslmode": {"disable"}, "passfile": {file}})
		credentialtest.OutlivesRotation(t, p, func() {
			write("two")
			s.exec(t, "ALTER ROLE pw PASSWORD 'two'")
			s.hangUp(t)
		})
		credentialtest.OutlivesRotation(t, p, func() {
			require.NoError(t, os.Remove(file))
			s.hangUp(t)
		})
	})
}

// A missing or changed file must not lead to a connection with fewer checks, or to another server.
func TestFilesOfTheURLChangeNothingElse(t *testing.T) {
	first, err := servertest.NewAuthority()
	require.NoError(t, err)
	dir := t.TempDir()
	files, err := servertest.NewPair(dir, "app", first, first)
	require.NoError(t, err)
	services := filepath.Join(dir, "services")
	write := func(host, mode string) {
		text := fmt.Sprintf("[leases]\nhost=%s\nsslmode=%s\nsslrootcert=%s\npassword=secret\n", host, mode, files.CA)
		require.NoError(t, os.WriteFile(services, []byte(text), 0o600))
	}
	write("a.test", "verify-full")
	dsn := "postgres:///?service=leases&servicefile=" + url.QueryEscape(services)
	config, err := pgxConfig(dsn)
	require.NoError(t, err)
	live := &pgLive{dsn: dsn, good: config.ConnConfig}
	_, stale := live.newestConfig()
	require.NoError(t, stale)
	for _, c := range [][2]string{{"b.test", "verify-full"}, {"a.test", "require"}, {"a.test", "disable"}, {"a.test,b.test", "verify-full"}} {
		write(c[0], c[1])
		got, stale := live.newestConfig()
		require.ErrorContains(t, stale, "another server", "%v", c)
		require.Equal(t, "a.test", got.Host)
		require.Equal(t, "a.test", got.TLSConfig.ServerName)
		require.Empty(t, got.Fallbacks)
		err := staleError(context.DeadlineExceeded, stale)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, err.Error(), "secret")
	}
	require.NoError(t, errors.Join(os.Remove(services)))
	got, stale := live.newestConfig()
	require.Error(t, stale)
	require.Equal(t, "secret", got.Password)
}
