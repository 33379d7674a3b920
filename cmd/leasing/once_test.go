//go:build linux

package main

import (
	"database/sql"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
)

// repeatedPart returns a part of a line that the line contains twice: a class of errors, this program's name, or a sentence.
func repeatedPart(line string) string {
	for _, class := range []error{leasing.ErrUnavailable, leasing.ErrThrottled, leasing.ErrDenied, leasing.ErrNotSetUp} {
		if strings.Count(line, class.Error()) > 1 {
			return class.Error()
		}
	}
	if strings.Contains(strings.TrimPrefix(line, "leasing: "), "leasing: ") {
		return "leasing: "
	}
	seen := map[string]bool{}
	for _, part := range regexp.MustCompile(`; |, and |\. `).Split(line, -1) {
		if seen[part] {
			return part
		}
		seen[part] = true
	}
	return ""
}

// silentServer returns the address of a server that accepts connections and never answers.
func silentServer(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return listener.Addr().String()
}

// A failure of any backend is printed once, whether a server is down or silent, or another process has
// locked a file.
func TestTrap_T271_AFailureIsReportedOnce(t *testing.T) {
	t.Parallel()
	const dead = "127.0.0.1:1"
	p := newTestEnv(t)
	urls := map[string]string{"sqlite without a folder": "sqlite:///no/such/leases.db", "file without a folder": "file:///no/such/folder"}
	for kind, address := range map[string]string{"dead": dead, "silent": silentServer(t)} {
		for name, url := range map[string]string{
			"redis": "redis://" + address, "redlock": "redis://" + address + "," + dead + ",127.0.0.1:2?mode=redlock&max_ttl=2h", "postgres": "postgres://" + address + "/x",
			"postgres that is created": "postgres://" + address + "/x?create=true", "mysql": "mysql://root@" + address + "/x", "s3": "s3://a:b@bucket?path_style=true&endpoint=http://" + address,
			"blob": "azblob+http://account:a2V5@" + address + "/account/leases", "cosmos": "cosmos+http://:a2V5@" + address + "/a/b", "etcd": "etcd://" + address,
			"consul": "consul://" + address + "/leases", "kubernetes": "kubernetes://:token@" + address + "/default",
		} {
			urls[name+", "+kind] = url
		}
	}
	locked := "sqlite://" + p.folder + "/locked.db?create=true"
	code, _, problems := p.run("ls", "--url", locked)
	require.Zero(t, code, problems)
	db, err := sql.Open("sqlite3", "file:"+p.folder+"/locked.db")
	require.NoError(t, err)
	lock, err := db.Conn(t.Context())
	require.NoError(t, err)
	_, err = lock.ExecContext(t.Context(), "BEGIN EXCLUSIVE")
	require.NoError(t, err)
	t.Cleanup(func() { _ = errors.Join(lock.Close(), db.Close()) })
	urls["sqlite, locked"] = locked

	for name, url := range urls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{
				{"run", "--wait", "300ms", "n", "--", "true"}, {"acquire", "n"}, {"doctor"},
			} {
				p := testEnv{t: t, folder: p.folder}
				code, out, problems := p.run(append([]string{"--url", url, "--timeout", "100ms"}, args...)...)
				require.NotZero(t, code, args)
				for line := range strings.Lines(out + problems) {
					require.Empty(t, repeatedPart(strings.TrimSpace(line)), "%q: %s", args, line)
				}
			}
		})
	}
}
