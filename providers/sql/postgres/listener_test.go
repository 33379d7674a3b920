package postgreslease

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/stretchr/testify/require"
)

// T32: after a reconnect, waiters get a wake-up in place of those that were missed, and later
// wake-ups arrive.
func TestTrap_T32_WaitersAreWokenAfterAReconnect(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p, other := open(), open()
	claim, err := other.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	wakeups := join(ctx, t, p, "n", "w")

	require.Equal(t, 1, terminateListeners(t, p))
	awaitWakeup(t, wakeups) // by the new connection
	require.NoError(t, other.Release(ctx, releaseOf(claim)))
	awaitWakeup(t, wakeups)
}

// terminateListeners ends the connections that listen for p's tables, and returns their number.
func terminateListeners(t testing.TB, p *Provider) (ended int) {
	t.Helper()
	conn := connectPostgres(t)
	defer conn.Close(context.Background())
	err := conn.QueryRow(context.Background(),
		"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' || $1 || '%'", backendOf(p).Channel).Scan(&ended)
	require.NoError(t, err)
	return ended
}

// wasChecked waits until a connection with that application name has checked whether the server
// still answers.
func wasChecked(t testing.TB, application string) {
	t.Helper()
	conn := connectPostgres(t)
	defer conn.Close(context.Background())
	require.Eventually(t, func() bool {
		var checked bool
		err := conn.QueryRow(context.Background(),
			"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND query = '-- ping')", application).Scan(&checked)
		require.NoError(t, err)
		return checked
	}, 20*time.Second, 10*time.Millisecond)
}

func TestWakeupsAreForTheNameAlone(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p := open()
	a, err := p.Acquire(ctx, claimOf("a", time.Minute))
	require.NoError(t, err)
	b, err := p.Acquire(ctx, claimOf("b", time.Minute))
	require.NoError(t, err)
	first, second := join(ctx, t, p, "a", "w"), join(ctx, t, p, "b", "v")
	require.NoError(t, p.Release(ctx, releaseOf(b)))
	awaitWakeup(t, second)
	require.Empty(t, first.C)
	require.NoError(t, p.Release(ctx, releaseOf(a)))
	awaitWakeup(t, first)
}

func TestListenerIsSharedAndEndsWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p := open("application_name", t.Name())
	backendOf(p).Queue.Wakeups.Silence = 100 * time.Millisecond
	waiting, stop := context.WithCancel(ctx)
	for range 3 {
		_, err := p.Wait(waiting, abstractions.WaitRequest{Name: "n", ID: "w"})
		require.NoError(t, err)
	}
	stop()
	require.Eventually(t, func() bool { return !backendOf(p).Queue.Wakeups.Listening() }, 20*time.Second, 10*time.Millisecond)

	// The next waiter gets a new connection, which outlasts a period without notifications.
	claim, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	wakeups := join(ctx, t, p, "n", "w")
	wasChecked(t, t.Name())
	require.NoError(t, p.Release(ctx, releaseOf(claim)))
	awaitWakeup(t, wakeups)
}

func TestWaitReportsThatItCannotListen(t *testing.T) {
	p, err := OpenURL(t.Context(), "postgres://u@127.0.0.1:1/d")
	require.NoError(t, err)
	defer p.Close()
	for range 3 {
		_, err = p.Wait(bounded(t), abstractions.WaitRequest{Name: "n", ID: "w"})
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
	}
	require.NoError(t, p.Close())
	_, err = backendOf(p).Wait(t.Context(), abstractions.WaitRequest{Name: "n", ID: "w"})
	require.ErrorIs(t, err, abstractions.ErrClosed)
}

// T53, T64: As reports the abilities that the provider has, and no others.
func TestAbilitiesAreListed(t *testing.T) {
	type abilities struct{ batch, list, ping, wait, history bool }
	abilitiesOf := func(p abstractions.Provider) (a abilities) {
		_, a.batch = abstractions.As[abstractions.BatchRenewer](p)
		_, a.list = abstractions.As[abstractions.Lister](p)
		_, a.ping = abstractions.As[abstractions.Pinger](p)
		_, a.wait = abstractions.As[abstractions.Waiter](p)
		_, a.history = abstractions.As[abstractions.HistoryReader](p)
		return a
	}
	opened := func(o Options) *Provider {
		p, err := Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		return p
	}
	foreign := sql.OpenDB(foreignDriver{})
	defer foreign.Close()

	require.Equal(t, abilities{true, true, true, true, false}, abilitiesOf(opened(Options{URL: "postgres://h/d"})))
	require.Equal(t, abilities{true, true, true, true, true}, abilitiesOf(opened(Options{URL: "postgres://h/d", History: true})))
	require.Equal(t, abilities{true, true, true, true, false}, abilitiesOf(opened(Options{URL: "postgres://h/d", NoWakeups: true})))
	require.Equal(t, abilities{true, true, true, true, false}, abilitiesOf(opened(Options{DB: foreign})))

	hidden := opened(Options{DB: foreign})
	_, err := hidden.History(t.Context(), abstractions.HistoryRequest{Name: "n"})
	require.ErrorIs(t, err, abstractions.ErrUnsupported)
}

// foreignDriver is a PostgreSQL driver that isn't pgx.
type foreignDriver struct{}

func (foreignDriver) Open(string) (sqldriver.Conn, error)               { return nil, errors.New("not here") }
func (d foreignDriver) Connect(context.Context) (sqldriver.Conn, error) { return d.Open("") }
func (d foreignDriver) Driver() sqldriver.Driver                        { return d }

// Waiters of a process that polls wait in the same queue, and a release by such a process wakes the waiters that listen.
func TestWhoPollsWaitsInTheSameQueue(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	listening, polling := open(), open("no_wakeups", "true")
	holder, err := listening.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	for round, p := range []*Provider{polling, listening, polling, polling, listening} {
		id := abstractions.NewID()
		wakeups := join(ctx, t, p, "n", id)
		late, behind := context.WithCancel(ctx)
		join(late, t, polling, "n", "late"+id)
		require.NoError(t, []*Provider{polling, listening}[round%2].Release(ctx, releaseOf(holder)))
		awaitWakeup(t, wakeups)
		holder, err = p.Acquire(ctx, abstractions.AcquireRequest{Name: "n", ID: id, Owner: "tester", TTL: time.Minute})
		require.NoError(t, err)
		behind()
		require.Eventually(t, func() bool { return len(waitersOf(ctx, t, p, "n")) == 0 }, 20*time.Second, time.Millisecond)
	}
}

// waitersOf returns the waiters in the queue of a name.
func waitersOf(ctx context.Context, t testing.TB, p *Provider, name string) (waiters []string) {
	t.Helper()
	var stored []byte
	b := backendOf(p)
	statement := inTables(p, "SELECT waiters FROM {lease} WHERE name = $1")
	require.NoError(t, dialect.ViaSQL{Querier: b.db}.Query(ctx, statement, []any{name}, func(scan dialect.Scan) error { return scan(&stored) }))
	for ; len(stored) > 0; stored = stored[dialect.WaiterBytes:] {
		waiters = append(waiters, hex.EncodeToString(stored[:dialect.HashBytes]))
	}
	return waiters
}
