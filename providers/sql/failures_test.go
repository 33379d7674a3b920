package sqllease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"
)

// T27: codes decide, never texts.
func TestTrap_T27_StatusDecidesWhatAnErrorMeans(t *testing.T) {
	sentinels := []error{abstractions.ErrUnavailable, abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrInvalid}
	state := func(code string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, Message: "permission denied, held, lost, database is locked"})
	}
	for _, test := range []struct {
		backend backend
		err     error
		want    []error // in the order of sentinels
	}{
		{&postgres{}, errors.New("42501: permission denied"), sentinels[:1]},
		{&postgres{}, state(""), sentinels[:1]},
		{&postgres{}, state("XX000"), sentinels[:1]},
		{&postgres{}, state("08006"), sentinels[:1]},
		{&postgres{}, state("57P01"), sentinels[:1]},
		{&postgres{}, state("57014"), sentinels[:1]},
		{&postgres{}, state("40003"), sentinels[:1]},
		{&postgres{}, state("40001"), sentinels[:2]},
		{&postgres{}, state("40P01"), sentinels[:2]},
		{&postgres{}, state("55P03"), sentinels[:2]},
		{&postgres{}, state("53300"), sentinels[:2]},
		{&postgres{}, state("53100"), sentinels[:2]},
		{&postgres{}, state("57P03"), sentinels[:2]},
		{&postgres{}, state("25006"), sentinels[:2]},
		{&postgres{}, state("42501"), sentinels[2:3]},
		{&postgres{}, state("28P01"), sentinels[2:3]},
		{&postgres{}, state("42P01"), sentinels[3:4]},
		{&postgres{}, state("3F000"), sentinels[3:4]},
		{&postgres{}, state("42P10"), sentinels[3:4]},
		{&postgres{}, state("42809"), sentinels[3:4]},
		{&postgres{}, state("23502"), sentinels[3:4]},
		{&postgres{}, state("3D000"), sentinels[3:4]},
		{&postgres{}, state("22021"), sentinels[4:]},
		{&sqlite{}, errors.New("database is locked"), sentinels[:1]},
		{&sqlite{}, sqlite3.ERROR, sentinels[3:4]},
		{&sqlite{}, sqlite3.CONSTRAINT_NOTNULL, sentinels[3:4]},
		{&sqlite{}, sqlite3.INTERRUPT, sentinels[:1]},
		{&sqlite{}, sqlite3.IOERR_FSYNC, sentinels[:1]},
		{&sqlite{}, fmt.Errorf("wrapped: %w", sqlite3.BUSY), sentinels[:2]},
		{&sqlite{}, sqlite3.BUSY_SNAPSHOT, sentinels[:2]},
		{&sqlite{}, sqlite3.FULL, sentinels[:1]},
		{&sqlite{}, sqlite3.IOERR_WRITE, sentinels[:1]},
		{&sqlite{}, sqlite3.READONLY, sentinels[2:3]},
		{&sqlite{}, sqlite3.CANTOPEN, sentinels[:1]},
		{&sqlite{}, cantOpen(syscall.EMFILE), sentinels[:2]},
		{&sqlite{}, cantOpen(syscall.ENFILE), sentinels[:2]},
		{&sqlite{}, cantOpen(syscall.EACCES), sentinels[2:3]},
		{&sqlite{}, cantOpen(syscall.EROFS), sentinels[2:3]},
		{&sqlite{}, cantOpen(syscall.ENOENT), sentinels[3:4]},
		{&sqlite{}, cantOpen(syscall.EISDIR), sentinels[3:4]},
		{&sqlite{}, sqlite3.NOTADB, sentinels[3:4]},
		{&sqlite{}, foreignCode(5), sentinels[:2]},
	} {
		err := explained(t, test.backend, test.err)
		for _, sentinel := range sentinels {
			require.Equal(t, slices.Contains(test.want, sentinel), errors.Is(err, sentinel), "%v: %v", test.err, sentinel)
		}
		require.ErrorIs(t, err, test.err, "the library's error stays in the chain")
	}
}

// explained is what a call of a provider returns if its database fails so.
func explained(t *testing.T, b backend, err error) error {
	d := &driver{backend: b, caps: capabilities(SQLite, "", false)}
	p := &Provider{shell: providerkit.New(d, providerkit.Config{Timeout: time.Minute}), driver: d}
	return providerkit.Call(t.Context(), p.shell, "test", "", func(context.Context) error { return err })
}

// cantOpen is the error of ncruces' driver about a file that the system does not open.
func cantOpen(errno syscall.Errno) error { return errors.Join(sqlite3.CANTOPEN_FULLPATH, errno) }

// foreignCode is an error of another SQLite driver.
type foreignCode int

func (c foreignCode) Error() string { return "some driver's" }
func (c foreignCode) Code() int     { return int(c) }

// T71: a connection that was never made has carried no request.
func TestTrap_T71_NoConnectionIsDefinite(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := listener.Addr().String()
	require.NoError(t, listener.Close())
	for _, rawURL := range []string{"postgres://u@" + nobody + "/d", "postgres://u@nowhere.invalid/d"} {
		p, err := OpenURL(t.Context(), rawURL)
		require.NoError(t, err)
		p.driver.checked.Store(time.Now().UnixNano()) // as if it had been there before
		_, err = p.Acquire(t.Context(), claimOf("n", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.True(t, abstractions.NotApplied(err), "%v", err)
		require.NoError(t, p.Close())
	}
	p := silentPostgres(t).(*Provider) // which takes connections
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = p.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
}
