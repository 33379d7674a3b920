package postgreslease

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

// refusePassword serves a connection like a PostgreSQL server that requests the plain password and refuses every
// password.
func refusePassword(conn net.Conn) {
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(length[:]))-4); err != nil {
		return
	}
	backend := pgproto3.NewBackend(conn, conn)
	backend.Send(&pgproto3.AuthenticationCleartextPassword{})
	if backend.Flush() != nil || backend.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
		return
	}
	if _, err := backend.Receive(); err == nil {
		backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "password authentication failed"})
		_ = backend.Flush()
	}
}

// T145: pgx looks up the first host's password in a file, and sends it to the other hosts.
func TestTrap_T145_EachHostGetsItsOwnPassword(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]func(ports [2]string, file string) Options{
		"URL": func(ports [2]string, file string) Options {
			return Options{URL: "postgres://app@127.0.0.1:" + ports[0] + ",127.0.0.1:" + ports[1] + "/app?sslmode=disable&connect_timeout=1&passfile=" + url.QueryEscape(file)}
		},
		"DSN": func(ports [2]string, file string) Options {
			return Options{DSN: "user=app dbname=app host=127.0.0.1,127.0.0.1 port=" + ports[0] + "," + ports[1] + " sslmode=disable connect_timeout=1 passfile=" + file}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first, second credentialtest.Recorder
			file, ports := filepath.Join(t.TempDir(), "passwords"), [2]string{}
			for i, addr := range []string{first.Listen(t, nil), second.Listen(t, refusePassword)} {
				ports[i] = strings.TrimPrefix(addr, "127.0.0.1:")
			}
			write := func(passwords ...string) {
				var text string
				for i, password := range passwords {
					text += "127.0.0.1:" + ports[i] + ":*:*:" + password + "\n"
				}
				require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			}
			o := options(ports, file)
			write("s3cret")
			ping(t, o, abstractions.ErrInvalid)
			write("s3cret", "other")
			ping(t, o, abstractions.ErrInvalid)
			require.Empty(t, second.String())

			write("s3cret", "s3cret")
			p, err := Open(t.Context(), o)
			require.NoError(t, err)
			write("s3cret-of-now", "s3cret")
			require.ErrorIs(t, p.Ping(t.Context()), abstractions.ErrDenied)
			require.NoError(t, p.Close())
			require.Contains(t, second.String(), "s3cret\x00", "the last that both have")
			require.NotContains(t, second.String(), "s3cret-of-now")
		})
	}
}

// T118: the password in a URL is sent to all hosts of the URL, and errors do not show the password.
func TestTrap_T118_APasswordIsForTheHostsOfItsURL(t *testing.T) {
	t.Parallel()
	var first, second credentialtest.Recorder
	ping(t, Options{URL: "postgres://app:s3cret@" + first.Listen(t, nil) + "," + second.Listen(t, refusePassword) + "/app?sslmode=disable&connect_timeout=1"}, abstractions.ErrDenied)
	require.Contains(t, second.String(), "s3cret")
}

func ping(t *testing.T, o Options, want error) {
	t.Helper()
	p, err := Open(t.Context(), o)
	if err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err = p.Ping(ctx)
		require.NoError(t, p.Close())
	}
	require.ErrorIs(t, err, want)
	require.NotContains(t, err.Error(), "s3cret")
}
