//go:build unix

package mysqllease

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLossIsSignalledBeforeTheNameIsFree_mariadb(t *testing.T) {
	faulttest.LossIsReported(t, 5*time.Second, func(t *testing.T) (*servertest.Server, func(string) abstractions.Provider, abstractions.Provider) {
		server := servertest.NewMariaDB(t)
		b := newBed(t, "mysql://root@"+server.Addr()+"/mysql")
		at := func(addr string) abstractions.Provider {
			return (&bed{url: strings.Replace(b.url, server.Addr(), addr, 1)}).open(t)
		}
		return server, at, b.open(t)
	})
}

func TestLeasesEndNeitherEarlyNorLate_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	faulttest.LeasesEndInTime(t, 2*time.Second, func() abstractions.Provider { return b.open(t) }, nil)
}

// T47: the clock is read after a wait for a lock. A renewal that waits beyond its claim's end comes too late.
func TestTrap_T47_ClockIsReadAfterTheLock_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	p := b.open(t)
	for {
		grant, err := p.Acquire(bounded(t), claimOf(abstractions.NewID(), 400*time.Millisecond))
		require.NoError(t, err)
		unlock := b.lock(t, grant.Name)
		renewed := make(chan error, 1)
		go func() {
			_, err := p.Renew(bounded(t), renewalOf(grant))
			renewed <- err
		}()
		<-time.After(700 * time.Millisecond) // only the server's clock decides when the lease is over
		unlock()
		if err := <-renewed; !errors.Is(err, abstractions.ErrThrottled) { // the machine was fast enough, and the wait did not time out
			require.ErrorIs(t, err, abstractions.ErrLost)
			return
		}
	}
}

// T47: a row may be written after its read has begun. The read then shows a lease with more time left than its TTL, although no
// clock has gone back, and the deadline stays. If a clock has gone back, the name is free one TTL later.
func TestTrap_T47_AReadThatBeganBeforeItsRowWasWritten_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	p := b.open(t)
	grant, err := p.Acquire(bounded(t), claimOf("n", time.Hour))
	require.NoError(t, err)
	config := b.config.Clone()
	config.MultiStatements = true
	config.Params = map[string]string{"timestamp": fmt.Sprint(time.Now().Add(-10 * time.Second).Unix())} // sets NOW, but not SYSDATE
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	early, err := Open(bounded(t), Options{Connector: connector, MaxConns: 2})
	require.NoError(t, err)
	defer early.Close()
	refused := func() abstractions.Record {
		_, err = early.Acquire(bounded(t), claimOf("n", time.Hour))
		require.ErrorIs(t, err, abstractions.ErrHeld)
		record, err := p.Inspect(bounded(t), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		return record
	}
	_, expires, _ := sqllease.Times(grant)
	record := refused()
	require.Equal(t, expires, record.ExpiresAt)

	b.exec(t, "UPDATE lease SET expires_us = expires_us + 3600000000")
	again := refused()
	require.False(t, again.ExpiresAt.Before(record.Now.Add(time.Hour)), "as if all of the TTL were left")
	require.False(t, again.ExpiresAt.After(again.Now.Add(time.Hour)))
}

// T47: if SYSDATE were NOW, the provider would mistake a read that began before its row was written for a clock that went
// back, and move the deadline to before the end of the holder's trust.
func TestTrap_T47_AServerWhoseClockStandsStill_mariadb(t *testing.T) {
	server := servertest.NewMariaDB(t)
	command := server.Command
	server.Command = func() (*exec.Cmd, error) {
		cmd, err := command()
		cmd.Args = append(cmd.Args, "--sysdate-is-now")
		return cmd, err
	}
	server.Restart()
	b := newBed(t, "mysql://root@"+server.Addr()+"/mysql")
	_, err := OpenURL(bounded(t), b.url+"?create=true")
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
}

// A locked row delays neither another name, nor the other renewals of its batch, nor a caller whose context has ended.
func TestLockedRowIsInNobodysWay_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	p := b.open(t)
	var batch []abstractions.RenewRequest
	for i := range 9 {
		grant, err := p.Acquire(bounded(t), claimOf(fmt.Sprint("n", i), time.Hour))
		require.NoError(t, err)
		batch = append(batch, renewalOf(grant))
	}
	unlock := b.lock(t, "n4")
	defer unlock()
	results, err := p.RenewBatch(bounded(t), batch)
	require.NoError(t, err)
	for i, result := range results {
		if i == 4 {
			require.ErrorIs(t, result.Err, abstractions.ErrThrottled)
		} else {
			require.NoError(t, result.Err, batch[i].Name)
		}
	}
	results, err = p.RenewBatch(bounded(t), batch[4:5])
	require.NoError(t, err)
	require.ErrorIs(t, results[0].Err, abstractions.ErrThrottled, "a batch of one")
	_, err = p.Acquire(bounded(t), claimOf("other", time.Minute))
	require.NoError(t, err)

	_, err = p.Renew(bounded(t), batch[4]) // waits
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = p.Renew(ctx, batch[4])
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// Whatever the server's defaults, sessions use UTC and strict mode, and changes are committed.
func TestServerDefaultsDoNotMatter_mariadb(t *testing.T) {
	b := newBed(t, "mysql://root@"+servertest.NewMariaDB(t).Addr()+"/mysql") // no other test uses the server
	admin := b.connect(t)
	defer admin.Close()
	_, err := admin.ExecContext(bounded(t), "SET GLOBAL time_zone = '-07:00', sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES', autocommit = 0, completion_type = 'CHAIN', tx_isolation = 'SERIALIZABLE'")
	require.NoError(t, err)
	p := b.open(t, "history=true")
	for _, name := range []string{`a\`, `a\' OR 1 -- `, `"a"`} {
		sent := time.Now()
		grant, err := p.Acquire(bounded(t), claimOf(name, time.Minute))
		require.NoError(t, err)
		now, expires, ok := sqllease.Times(grant)
		require.True(t, ok)
		require.Equal(t, time.Minute, expires.Sub(now))
		require.WithinDuration(t, sent, now, time.Hour/2, "the server is this machine")
		record, err := b.open(t).Inspect(bounded(t), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		require.True(t, record.Held, "it is committed")
	}
}

// Exactly one of many concurrent acquires gets the name, and a renewal that is reported as done is
// stored, whatever other changes are made.
func TestChangesAtTheSameTime_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	p, others := b.open(t), b.open(t)
	for round := range 40 {
		var all sync.WaitGroup
		grants := make([]abstractions.Grant, 8)
		for i := range grants {
			all.Go(func() {
				grants[i], _ = []*Provider{p, others}[i%2].Acquire(bounded(t), claimOf(fmt.Sprint("one/", round), time.Minute))
			})
		}
		all.Wait()
		held := slices.DeleteFunc(grants, func(g abstractions.Grant) bool { return g.ID == "" })
		require.Len(t, held, 1)
		other, err := p.Acquire(bounded(t), claimOf(fmt.Sprint("other/", round), time.Minute))
		require.NoError(t, err)

		batch := []abstractions.RenewRequest{renewalOf(held[0]), renewalOf(other)}
		batch[0].TTL, batch[1].TTL = time.Hour, time.Hour
		var results []abstractions.RenewResult
		waiting, leave := context.WithCancel(bounded(t))
		for range 6 { // they join the queue
			all.Go(func() {
				req := claimOf(held[0].Name, time.Minute)
				_, err := others.Wait(waiting, abstractions.WaitRequest{Name: req.Name, ID: req.ID})
				if err == nil {
					_, err = others.Acquire(bounded(t), req)
				}
				if !errors.Is(err, abstractions.ErrHeld) {
					t.Error(err)
				}
			})
		}
		all.Go(func() { results, err = p.RenewBatch(bounded(t), batch) })
		all.Wait()
		require.NoError(t, err)
		for i, result := range results {
			if errors.Is(result.Err, abstractions.ErrThrottled) { // another change had locked the row
				continue
			}
			require.NoError(t, result.Err)
			record, err := p.Inspect(bounded(t), abstractions.InspectRequest{Name: batch[i].Name})
			require.NoError(t, err)
			_, expires, _ := sqllease.Times(result.Grant)
			require.Equal(t, expires, record.ExpiresAt)
		}
		leave()
	}
}

// lock locks the row of a name for another transaction.
func (b *bed) lock(t *testing.T, name string) (unlock func()) {
	db := b.connect(t)
	tx, err := db.BeginTx(bounded(t), nil)
	require.NoError(t, err)
	var version int64
	require.NoError(t, tx.QueryRow("SELECT version FROM lease WHERE name = ? FOR UPDATE", name).Scan(&version))
	return func() {
		require.NoError(t, tx.Rollback())
		require.NoError(t, db.Close())
	}
}

// Another statement may lock the auto-increment counter of the history table. A change whose wait for this lock times
// out has no effect.
func TestNumbersOfTheHistoryThatAreLocked_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	p := b.open(t, "history=true")
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.exec(t, "INSERT INTO lease_history (name, at_us, kind, id, owner, token, actor, reason) SELECT '', 0, '', '', '', 0, SLEEP(4), '' FROM (SELECT 1 UNION SELECT 2) AS two")
	}()
	var err error
	for err == nil {
		name := abstractions.NewID()
		if _, err = p.Acquire(bounded(t), claimOf(name, time.Hour)); err != nil {
			require.ErrorIs(t, err, abstractions.ErrThrottled)
			record, err := p.Inspect(bounded(t), abstractions.InspectRequest{Name: name})
			require.NoError(t, err)
			require.False(t, record.Held)
		}
	}
	<-done
}

// interruptingConn is a connection that runs a function before it sends a statement.
type interruptingConn struct {
	conn
	before func(statement string)
}

// conn lists the interfaces of the library's connection that database/sql uses.
type conn interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
}

func (c interruptingConn) QueryContext(ctx context.Context, statement string, args []driver.NamedValue) (driver.Rows, error) {
	c.before(statement)
	return c.conn.QueryContext(ctx, statement, args)
}

type interruptingConnector struct {
	driver.Connector
	before func(statement string)
}

func (c interruptingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return interruptingConn{made.(conn), c.before}, nil
}

// openInterrupted opens a provider that runs a function before it sends the given statement for the first time.
func (b *bed) openInterrupted(t *testing.T, statement string, do func()) *Provider {
	var once sync.Once
	config := b.config.Clone()
	config.MultiStatements = true
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	p, err := Open(bounded(t), Options{
		MaxConns: 4, Connector: interruptingConnector{connector, func(sent string) {
			if strings.Contains(sent, statement) {
				once.Do(do)
			}
		}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// T66: a claim that is broken between the two statements of a batch is not renewed, and the other claim is renewed.
func TestTrap_T66_ABatchThatIsWrittenInPart_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	others := b.open(t)
	kept, err := others.Acquire(bounded(t), claimOf("kept", time.Minute))
	require.NoError(t, err)
	broken, err := others.Acquire(bounded(t), claimOf("broken", time.Minute))
	require.NoError(t, err)

	p := b.openInterrupted(t, "UPDATE (", func() {
		_, err := others.Break(bounded(t), abstractions.BreakRequest{Name: "broken", Immediate: true})
		assert.NoError(t, err)
	})
	batch := []abstractions.RenewRequest{renewalOf(kept), renewalOf(broken)}
	batch[0].TTL, batch[1].TTL = time.Hour, time.Hour
	results, err := p.RenewBatch(bounded(t), batch)
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	require.Equal(t, time.Hour, results[0].Grant.TTL)
	require.ErrorIs(t, results[1].Err, abstractions.ErrLost)
	require.Zero(t, results[1].Grant)
}

// A name that is acquired between the two statements of a sweep is not forgotten, and other names are deleted.
func TestSweepLeavesWhatHasChanged_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	others := b.open(t)
	for _, name := range []string{"gone", "used", "went"} {
		grant, err := others.Acquire(bounded(t), claimOf(name, time.Minute))
		require.NoError(t, err)
		require.NoError(t, others.Release(bounded(t), releaseOf(grant)))
	}
	b.exec(t, "UPDATE lease SET version = version - 7200000000")
	p := b.openInterrupted(t, "DELETE", func() {
		_, err := others.Acquire(bounded(t), claimOf("used", time.Minute))
		assert.NoError(t, err)
	})
	n, err := p.Sweep(bounded(t))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	list, err := p.List(bounded(t), abstractions.ListRequest{HeldOnly: true})
	require.NoError(t, err)
	require.Len(t, list.Records, 1)
}

// If a name is forgotten while an acquire is paused between its two statements, the acquire still gets a token
// above the forgotten token. The server's clock may be behind that token, for example after a clock step.
func TestTrap_T284_AClaimThatStoodStillIsAboveTheFloor_mariadb(t *testing.T) {
	b := newBed(t, mariadbURL(t))
	others := b.open(t)
	forgotten := time.Now().Add(time.Hour).UnixMicro()
	p := b.openInterrupted(t, "INSERT INTO "+"`lease`", func() {
		b.exec(t, fmt.Sprintf("INSERT INTO lease (name, version, token, id, owner, metadata, expires_us, breaking, broken_by, break_reason, ended, waiters) "+
			"VALUES ('', 1, %d, '', '', '{}', 0, 0, '', '', '', '')", forgotten))
	})
	grant, err := p.Acquire(bounded(t), claimOf("name", time.Minute))
	require.NoError(t, err)
	require.Greater(t, grant.Token, forgotten)
	next, err := others.Acquire(bounded(t), claimOf("other", time.Minute))
	require.NoError(t, err)
	require.Greater(t, next.Token, forgotten)
}
