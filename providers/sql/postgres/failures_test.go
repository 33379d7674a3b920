package postgreslease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/sql/dialect/dialecttest"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// T27: an error's code, never its text, decides what the error means.
func TestTrap_T27_StatusDecidesWhatAnErrorMeans(t *testing.T) {
	sentinels := []error{abstractions.ErrUnavailable, abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrInvalid}
	state := func(code string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, Message: "permission denied, held, lost, database is locked"})
	}
	for _, test := range []struct {
		err  error
		want []error // in the order of sentinels
	}{
		{errors.New("42501: permission denied"), sentinels[:1]},
		{state(""), sentinels[:1]},
		{state("XX000"), sentinels[:1]},
		{state("08006"), sentinels[:1]},
		{state("57P01"), sentinels[:1]},
		{state("57014"), sentinels[:1]},
		{state("40003"), sentinels[:1]},
		{state("40001"), sentinels[:2]},
		{state("40P01"), sentinels[:2]},
		{state("55P03"), sentinels[:2]},
		{state("53300"), sentinels[:2]},
		{state("53100"), sentinels[:2]},
		{state("57P03"), sentinels[:2]},
		{state("25006"), sentinels[:2]},
		{state("42501"), sentinels[2:3]},
		{state("28P01"), sentinels[2:3]},
		{state("42P01"), sentinels[3:4]},
		{state("3F000"), sentinels[3:4]},
		{state("42P10"), sentinels[3:4]},
		{state("42809"), sentinels[3:4]},
		{state("23502"), sentinels[3:4]},
		{state("3D000"), sentinels[3:4]},
		{state("22021"), sentinels[4:]},
	} {
		err := dialecttest.Explained(t, &postgres{}, test.err)
		for _, sentinel := range sentinels {
			require.Equal(t, slices.Contains(test.want, sentinel), errors.Is(err, sentinel), "%v: %v", test.err, sentinel)
		}
		require.ErrorIs(t, err, test.err, "the library's error stays in the chain")
	}
}

// T71: if no connection was made, no request was sent.
func TestTrap_T71_NoConnectionIsDefinite(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := listener.Addr().String()
	require.NoError(t, listener.Close())
	for _, rawURL := range []string{"postgres://u@" + nobody + "/d", "postgres://u@nowhere.invalid/d"} {
		p, err := OpenURL(t.Context(), rawURL)
		require.NoError(t, err)
		dialecttest.CheckedOf(p).Store(time.Now().UnixNano()) // as if the tables had been found before
		_, err = p.Acquire(t.Context(), claimOf("n", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.True(t, abstractions.NotApplied(err), "%v", err)
		require.NoError(t, p.Close())
	}
	p := silentPostgres(t).(*Provider) // this server accepts connections
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = p.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
}
