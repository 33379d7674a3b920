package sqlserverlease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/providers/sql/dialect/dialecttest"
	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"
)

func serverError(number int32) mssql.Error {
	return mssql.Error{Number: number, Class: 14, Message: fmt.Sprint("error ", number)}
}

// lost are the errors from go-mssqldb for an answer that does not arrive.
var lost = map[string]error{
	"the connection ends":         io.EOF,
	"the connection is reset":     &net.OpError{Op: "read", Err: syscall.ECONNRESET},
	"half a packet":               mssql.StreamError{InnerError: io.ErrUnexpectedEOF},
	"the server dies":             mssql.ServerError{},
	"no reason":                   mssql.Error{Message: "Request failed but didn't provide reason"},
	"an error that is not listed": serverError(4711),
	"a session that is killed":    serverError(596),
	"a fail-over":                 serverError(40197),
}

// T290: the answer to a batch is lost, and with it the answer to its COMMIT. The batch was executed, and is never reported as
// not applied.
func TestTrap_T290_AnAnswerThatIsLost(t *testing.T) {
	for name, err := range lost {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			p := f.open(Options{History: true})
			unknown := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, abstractions.ErrUnavailable)
				require.False(t, abstractions.NotApplied(err))
			}
			lose := func(s *sent) { s.after = err }

			f.failKind("insert", lose)
			req := claimOf("n", time.Minute)
			_, err := p.Acquire(bounded(t), req)
			unknown(err)
			f.stopFailing()
			grant, err := p.Acquire(bounded(t), req)
			require.NoError(t, err, "the claim has the name")

			f.failKind("update", lose)
			_, err = p.Renew(bounded(t), renewalOf(grant))
			unknown(err)
			_, err = p.Break(bounded(t), abstractions.BreakRequest{Name: "n"})
			unknown(err)
			unknown(p.Release(bounded(t), releaseOf(grant)))
			f.stopFailing()
			_, err = p.Renew(bounded(t), renewalOf(grant))
			require.ErrorIs(t, err, abstractions.ErrLost, "it was released")

			f.failKind("renew", lose)
			one, err := p.Acquire(bounded(t), claimOf("one", time.Minute))
			require.NoError(t, err)
			two, err := p.Acquire(bounded(t), claimOf("two", time.Minute))
			require.NoError(t, err)
			results, err := p.RenewBatch(bounded(t), []abstractions.RenewRequest{renewalOf(one), renewalOf(two)})
			require.NoError(t, err)
			unknown(results[0].Err)
			unknown(results[1].Err)
			require.Len(t, f.of("renew"), 1, "an unknown outcome is not repeated")

			f.failKind("note", lose)
			unknown(p.WriteHistory(bounded(t), entries(3)))
			f.failKind("commit", lose)
			unknown(p.WriteHistory(bounded(t), entries(300)))
		})
	}
}

func entries(n int) (all []abstractions.NamedEntry) {
	for i := range n {
		all = append(all, abstractions.NamedEntry{Name: fmt.Sprint("n", i), HistoryEntry: abstractions.HistoryEntry{Kind: abstractions.HistoryAcquired}})
	}
	return all
}

// T290: a batch that ends without an error and without its answer is not a lost race: the batch may have
// committed.
func TestTrap_T290_AnAnswerThatSaysNothing(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	f.failKind("insert", func(s *sent) { s.silent = true })
	_, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.ErrorContains(t, err, "did not return the number of rows")
	require.False(t, abstractions.NotApplied(err))
	require.Len(t, f.of("insert"), 1)
}

// T290: the outcome of a call is unknown if its context ends while the server executes the batch.
func TestTrap_T290_AContextThatEnds(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	f.failKind("insert", func(s *sent) { s.during = cancel })
	req := claimOf("n", time.Minute)
	_, err := p.Acquire(ctx, req)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, abstractions.NotApplied(err))
	f.stopFailing()
	_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld, "the first claim has the name")
}

// T291: a batch that is a deadlock victim was rolled back. It is sent again at once. After too many deadlocks the request fails
// as not applied.
func TestTrap_T291_AVictimOfADeadlock(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{History: true})
	times := 0
	f.failKind("insert", func(s *sent) {
		if times++; times <= 3 {
			s.refuse = serverError(1205)
		}
	})
	grant, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	require.Len(t, f.of("insert"), 4)
	require.Equal(t, 1, f.notes)

	for _, kind := range []string{"update", "read"} {
		f.failKind(kind, func(s *sent) { s.refuse = serverError(1205) })
		_, err = p.Renew(bounded(t), renewalOf(grant))
		require.ErrorIs(t, err, abstractions.ErrThrottled, kind)
		require.True(t, abstractions.NotApplied(err), kind)
		require.Len(t, f.of("update"), 1+maxRepetitions, kind)
	}
}

// T291: a batch of renewals is the victim of one deadlock after another. It is not applied, and each claim is renewed alone.
func TestTrap_T291_ABatchThatIsAVictim(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	var batch []abstractions.RenewRequest
	for i := range 3 {
		grant, err := p.Acquire(bounded(t), claimOf(fmt.Sprint("n", i), time.Minute))
		require.NoError(t, err)
		batch = append(batch, renewalOf(grant))
		batch[i].TTL = time.Hour
	}
	for _, number := range []int32{1205, 1222} {
		f.failKind("renew", func(s *sent) { s.refuse = serverError(number) })
		results, err := p.RenewBatch(bounded(t), batch)
		require.NoError(t, err)
		for _, result := range results {
			require.NoError(t, result.Err, number)
			require.Equal(t, time.Hour, result.Grant.TTL)
		}
	}
	f.failKind("update", func(s *sent) {
		if nameIn(s.args[13]) == "n1" {
			s.refuse = serverError(1222)
		}
	})
	_, err := p.Renew(bounded(t), batch[1])
	require.ErrorIs(t, err, abstractions.ErrThrottled, "a row that another transaction has locked")
	require.True(t, abstractions.NotApplied(err))
}

// T292: two claims insert one name. The loser is refused with ErrHeld, and keeps its connection.
func TestTrap_T292_ALostRaceForANewName(t *testing.T) {
	for _, number := range []int32{2627, 2601} {
		f := newFake(t)
		p := f.open(Options{})
		first := true
		f.failKind("insert", func(s *sent) {
			if first {
				first = false
				winner := append([]driver.Value{}, s.args[:rowArgs]...)
				winner[3] = abstractions.NewID()
				s.before = func() { f.rows["n"] = winner }
				s.refuse = serverError(number)
			}
		})
		_, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrHeld, number)
		require.Equal(t, 1, f.connections(), number)
	}
}

// T293: a renewal waits for the lock of its row until its claim has run out. The statement reads the clock before the wait, but
// the reading before COMMIT comes after the wait.
func TestTrap_T293_ARenewalThatWaitsTooLong(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	one, err := p.Acquire(bounded(t), claimOf("one", time.Minute))
	require.NoError(t, err)
	two, err := p.Acquire(bounded(t), claimOf("two", time.Hour))
	require.NoError(t, err)
	wait := func(s *sent) { s.during = func() { f.ahead += 2 * time.Minute } }
	f.failKind("renew", wait)
	results, err := p.RenewBatch(bounded(t), []abstractions.RenewRequest{renewalOf(one), renewalOf(two)})
	require.NoError(t, err)
	require.ErrorIs(t, results[0].Err, abstractions.ErrLost)
	require.NoError(t, results[1].Err)

	again, err := p.Acquire(bounded(t), claimOf("one", time.Minute))
	require.NoError(t, err)
	f.failKind("update", wait)
	_, err = p.Renew(bounded(t), renewalOf(again))
	require.ErrorIs(t, err, abstractions.ErrLost)
}

// T294: the token, the ID or the version of the row is changed by hand between the read and the write. The row is not
// overwritten.
func TestTrap_T294_ARowThatIsNoLongerTheClaims(t *testing.T) {
	for column, value := range map[int]driver.Value{2: int64(1), 3: "another", 1: int64(1)} {
		f := newFake(t)
		p := f.open(Options{})
		grant, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
		require.NoError(t, err)
		other, err := p.Acquire(bounded(t), claimOf("other", time.Minute))
		require.NoError(t, err)
		change := func(s *sent) {
			s.before = func() {
				f.rows["n"][column] = value
				f.rows["n"][4] = "by hand"
			}
		}
		f.failKind("renew", change)
		_, err = p.RenewBatch(bounded(t), []abstractions.RenewRequest{renewalOf(grant), renewalOf(other)})
		require.NoError(t, err)
		f.failKind("update", change)
		_, err = p.Renew(bounded(t), renewalOf(grant))
		if column != 1 { // a changed version alone is not a loss
			require.ErrorIs(t, err, abstractions.ErrLost, column)
		}
		require.Equal(t, "by hand", f.rows["n"][4], column)
	}
}

// T294: a process pauses between its read of a new name and the write. Meanwhile the name is acquired, released and forgotten. The token that
// follows is greater than the forgotten token.
func TestTrap_T294_ANameThatWasForgottenSinceItsRead(t *testing.T) {
	f := newFake(t)
	others, p := f.open(Options{Retention: time.Millisecond}), f.open(Options{})
	var forgotten abstractions.Grant
	paused := false
	f.failKind("insert", func(s *sent) {
		if paused {
			return
		}
		paused = true
		s.before = func() {
			f.ahead = time.Minute
			var err error
			forgotten, err = others.Acquire(bounded(t), claimOf("n", time.Minute))
			require.NoError(t, err)
			require.NoError(t, others.Release(bounded(t), releaseOf(forgotten)))
			f.ahead = time.Hour
			n, err := others.Sweep(bounded(t))
			require.NoError(t, err)
			require.Equal(t, 1, n)
			f.ahead = 0 // the clock was ahead
		}
	})
	grant, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	require.Greater(t, grant.Token, forgotten.Token)
}

// T295: a read that begins before its row is written shows more time left than the TTL. The provider does not conclude
// that the clock has gone back, and keeps the deadline.
func TestTrap_T295_AReadThatBeganEarly(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	grant, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	expires := f.rows["n"][8]
	f.early = 30 * time.Second
	_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.Equal(t, expires, f.rows["n"][8])
	_, err = p.Renew(bounded(t), renewalOf(grant))
	require.NoError(t, err)
}

// T296: each connection of a pool has ended. A request that was not sent uses another connection.
func TestTrap_T296_ConnectionsThatHaveEnded(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	times := 0
	f.failKind("insert", func(s *sent) {
		if times++; times <= 5 {
			s.refuse = driver.ErrBadConn
		}
	})
	_, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	require.GreaterOrEqual(t, f.connections(), 5)

	f.failKind("insert", func(s *sent) { s.refuse = driver.ErrBadConn })
	_, err = p.Acquire(bounded(t), claimOf("m", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.True(t, abstractions.NotApplied(err))
}

// T297: after an error from a read-only server the provider closes its connections, so that the next
// request connects to the primary.
func TestTrap_T297_AServerThatOnlyReads(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	pool := dialecttest.BackendOf(p).(*backend).db
	require.NoError(t, p.Ping(bounded(t)))
	var together, all sync.WaitGroup
	together.Add(3)
	f.failKind("read", func(s *sent) { s.before = func() { together.Done(); together.Wait() } })
	for range 3 { // each on a connection of its own
		all.Go(func() { _, _ = p.Inspect(bounded(t), abstractions.InspectRequest{Name: "n"}) })
	}
	all.Wait()
	require.GreaterOrEqual(t, pool.Stats().Idle, 2)
	f.failKind("insert", func(s *sent) { s.refuse = serverError(3906) })
	_, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	require.ErrorContains(t, err, "the server is read-only")
	require.Zero(t, pool.Stats().OpenConnections)
	f.stopFailing()
	_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
}

// T297: of an application's connections, only the connection to the read-only server is closed.
func TestTrap_T297_AnApplicationsServerThatOnlyReads(t *testing.T) {
	f := newFake(t)
	db := sql.OpenDB(f)
	defer db.Close()
	p, err := Open(bounded(t), Options{DB: db})
	require.NoError(t, err)
	require.NoError(t, p.Ping(bounded(t)))
	require.Equal(t, 1, db.Stats().OpenConnections)
	f.failKind("insert", func(s *sent) { s.refuse = serverError(3906) })
	_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	require.Zero(t, db.Stats().OpenConnections)
}

func TestALogInThatFails(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	for number, want := range map[int32]error{18456: abstractions.ErrDenied, 18487: abstractions.ErrDenied, 4060: abstractions.ErrNotSetUp, 40613: abstractions.ErrThrottled, 10928: abstractions.ErrThrottled} {
		f.failKind("connect", func(s *sent) { s.refuse = serverError(number) })
		_, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
		require.ErrorIs(t, err, want, number)
		require.True(t, abstractions.NotApplied(err), number)
	}
	f.failKind("connect", func(s *sent) {
		s.refuse = fmt.Errorf("unable to open tcp connection: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
	})
	_, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.True(t, abstractions.NotApplied(err))
}

// The application's own database stays open, and its errors are classified in the same way.
func TestAnApplicationsDatabase(t *testing.T) {
	f := newFake(t)
	db := sql.OpenDB(f)
	defer db.Close()
	p, err := Open(bounded(t), Options{DB: db})
	require.NoError(t, err)
	require.False(t, p.Capabilities().HeedsContext)
	grant, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	f.failKind("update", func(s *sent) { s.refuse = serverError(40501) })
	_, err = p.Renew(bounded(t), renewalOf(grant))
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	f.stopFailing()
	require.NoError(t, p.Release(bounded(t), releaseOf(grant)))
	require.NoError(t, p.Close())
	require.NoError(t, db.PingContext(bounded(t)))
}

// A migration takes the lock and creates the tables, in one transaction. If the lock is not granted, nothing has changed. If the
// answer to COMMIT is lost, the outcome is unknown.
func TestMigrateOnTheFake(t *testing.T) {
	f := newFake(t)
	f.empty = true
	p := f.open(Options{})
	require.ErrorIs(t, p.Ping(bounded(t)), abstractions.ErrNotSetUp)
	f.lock = -1
	require.ErrorContains(t, p.Migrate(bounded(t)), "another process is making the tables")
	require.Empty(t, f.of("other"))
	require.Empty(t, f.of("commit"))

	f.lock = 1 // granted after a wait for another process
	f.failKind("commit", func(s *sent) { s.after = io.EOF })
	err := p.Migrate(bounded(t))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.False(t, abstractions.NotApplied(err))
	f.stopFailing()
	require.NoError(t, p.Migrate(bounded(t)))
	made := f.of("other")
	require.Len(t, made, 2*len(p.Statements()))
	for i, statement := range p.Statements() {
		require.Equal(t, settings+lockWait+statement, made[i].text)
	}
	require.Less(t, indexOf(f, "lock"), indexOf(f, "other"))
	require.Less(t, indexOf(f, "other"), indexOf(f, "commit"))

	f.failKind("other", func(s *sent) { s.refuse = serverError(262) })
	err = p.Migrate(bounded(t))
	var setup *sqllease.SetupError
	require.ErrorAs(t, err, &setup)
	require.Equal(t, p.Statements(), setup.Statements)
	require.Len(t, f.of("commit"), 2)
}

// A table without its key would let two claims insert one name.
func TestATableWithoutItsKey(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	f.failKind("keyed", func(s *sent) { f.empty = true })
	err := p.Ping(bounded(t))
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.ErrorContains(t, err, "[leasing].[lease]")
}

// T292: an insert fails on a key that no read shows. The request ends after a few attempts.
func TestTrap_T292_AKeyThatNoReadShows(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{})
	f.failKind("insert", func(s *sent) { s.refuse = serverError(2627) })
	_, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	require.LessOrEqual(t, len(f.of("insert")), maxRepetitions+1)
}

// T292: two sweeps insert the floor. The second sweep raises that floor.
func TestTrap_T292_ALostRaceForTheFloor(t *testing.T) {
	f := newFake(t)
	p := f.open(Options{Retention: time.Millisecond})
	grant, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	require.NoError(t, p.Release(bounded(t), releaseOf(grant)))
	f.ahead = time.Hour
	times := 0
	f.failKind("raise", func(s *sent) {
		if times++; times == 1 {
			s.refuse = serverError(2627)
		}
	})
	n, err := p.Sweep(bounded(t))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Len(t, f.of("raise"), 2)
}

// T298: the error numbers of SQL Server and Azure SQL Database determine the error's class.
func TestTrap_T298_WhatTheNumbersDecide(t *testing.T) {
	for want, numbers := range map[string][]int32{
		"refused": {1205, 1222, 2627, 2601, 701, 1105, 9002, 10928, 10929, 40501, 49918, 49919, 49920},
		"close":   {3906, 976, 978, 40613, 927},
		"denied":  {18456, 18470, 18486, 18487, 18488, 229, 230, 262, 916, 40615},
		"missing": {208, 207, 213, 515, 2714, 4060, 2760, 8152, 2628},
		"unknown": {596, 6005, 40197, 4711, 0, 3621},
	} {
		for _, number := range numbers {
			err := explain(t, serverError(number))
			matches := map[string]bool{
				"refused": errors.Is(err, abstractions.ErrThrottled), "close": errors.Is(err, abstractions.ErrThrottled) && verdict(serverError(number)).Close,
				"denied": errors.Is(err, abstractions.ErrDenied), "missing": errors.Is(err, abstractions.ErrNotSetUp),
				"unknown": errors.Is(err, abstractions.ErrUnavailable) && !abstractions.NotApplied(err),
			}
			require.True(t, matches[want], "%d: %v", number, err)
			require.Equal(t, want != "unknown", abstractions.NotApplied(err), number)
		}
	}
}

// T298: the server sends several errors for one request. The first error counts, and an error that is not listed makes the
// outcome unknown.
func TestTrap_T298_SeveralErrorsAtATime(t *testing.T) {
	several := func(numbers ...int32) error {
		var all []mssql.Error
		for _, n := range numbers {
			all = append(all, serverError(n))
		}
		last := all[len(all)-1]
		last.All = all
		return fmt.Errorf("around: %w", last)
	}
	require.ErrorIs(t, explain(t, several(4060, 18456)), abstractions.ErrNotSetUp)
	require.ErrorIs(t, explain(t, several(262, 2759)), abstractions.ErrDenied)
	require.False(t, abstractions.NotApplied(explain(t, several(1205, 4711))))
	require.False(t, abstractions.NotApplied(explain(t, several(4711, 1205))))
	require.False(t, isDeadlock(several(4711, 1205)))
	require.False(t, isDuplicate(several(2627, 4711)))
	severe := serverError(1205)
	severe.Class = 20
	require.True(t, verdict(severe).Close)
}

func explain(t *testing.T, err error) error {
	t.Helper()
	f := newFake(t)
	p := f.open(Options{})
	require.NoError(t, p.Ping(bounded(t)))
	f.failKind("insert", func(s *sent) { s.refuse = err })
	_, err = p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.Error(t, err)
	return err
}
