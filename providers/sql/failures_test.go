package sqllease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
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
		{&postgres{}, state("3D000"), sentinels[3:4]},
		{&postgres{}, state("22021"), sentinels[4:]},
		{&sqlite{}, errors.New("database is locked"), sentinels[:1]},
		{&sqlite{}, sqlite3.ERROR, sentinels[:1]},
		{&sqlite{}, sqlite3.INTERRUPT, sentinels[:1]},
		{&sqlite{}, sqlite3.IOERR_FSYNC, sentinels[:1]},
		{&sqlite{}, fmt.Errorf("wrapped: %w", sqlite3.BUSY), sentinels[:2]},
		{&sqlite{}, sqlite3.BUSY_SNAPSHOT, sentinels[:2]},
		{&sqlite{}, sqlite3.FULL, sentinels[:2]},
		{&sqlite{}, sqlite3.READONLY, sentinels[2:3]},
		{&sqlite{}, sqlite3.CANTOPEN, sentinels[3:4]},
		{&sqlite{}, sqlite3.NOTADB, sentinels[3:4]},
		{&sqlite{}, foreignCode(5), sentinels[:2]},
	} {
		err := explain(t.Context(), test.backend, test.err)
		for _, sentinel := range sentinels {
			require.Equal(t, slices.Contains(test.want, sentinel), errors.Is(err, sentinel), "%v: %v", test.err, sentinel)
		}
		require.ErrorIs(t, err, test.err, "the library's error stays in the chain")
	}
}

// foreignCode is an error of another SQLite driver.
type foreignCode int

func (c foreignCode) Error() string { return "some driver's" }
func (c foreignCode) Code() int     { return int(c) }

func TestEndOfTheContextShows(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	b := &sqlite{}

	err := explain(cancelled, b, sqlite3.INTERRUPT)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, abstractions.ErrUnavailable, "the caller left; nobody said that the database is down")

	err = explain(late, b, sqlite3.INTERRUPT)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, abstractions.ErrUnavailable)

	err = explain(late, b, sqlite3.BUSY)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, abstractions.ErrThrottled, "it is not known for how long the lock stayed")

	held := &abstractions.HeldError{}
	require.Equal(t, error(held), explain(late, b, held), "an answer is an answer")
}
