//go:build unix

package mysqllease

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/stretchr/testify/require"
)

// The benchmarks compare the provider with GET_LOCK, which does not write, and whose locks end with their connection.
// They use a separate server with default settings: each commit is flushed to disk.

// BenchmarkCycle_mariadb acquires and releases a free name.
func BenchmarkCycle_mariadb(b *testing.B) {
	bed := newBed(b, "mysql://root@"+servertest.NewMariaDB(b).Addr()+"/mysql")
	b.Run("leasing", func(b *testing.B) {
		p := bed.open(b)
		for b.Loop() {
			g, err := p.Acquire(b.Context(), claimOf("n", time.Minute))
			require.NoError(b, err)
			require.NoError(b, p.Release(b.Context(), releaseOf(g)))
		}
	})
	b.Run("get_lock", func(b *testing.B) {
		conn := bed.conn(b)
		for b.Loop() {
			locks(b, conn, "SELECT GET_LOCK('bench', 0)")
			locks(b, conn, "SELECT RELEASE_LOCK('bench')")
		}
	})
}

// BenchmarkHandoff_mariadb measures the time from a release until a waiter has the name.
func BenchmarkHandoff_mariadb(b *testing.B) {
	bed := newBed(b, "mysql://root@"+servertest.NewMariaDB(b).Addr()+"/mysql")
	b.Run("leasing", func(b *testing.B) {
		handoff(b, func() func() (release func()) {
			m, err := leasing.NewManager(bed.open(b), leasing.Options{TTL: time.Minute})
			require.NoError(b, err)
			b.Cleanup(func() { _ = m.Close(context.WithoutCancel(b.Context())) })
			return func() func() {
				l, err := m.Acquire(b.Context(), "n")
				if err != nil {
					b.Error(err)
				}
				return func() { require.NoError(b, l.Release(b.Context())) }
			}
		})
	})
	b.Run("get_lock", func(b *testing.B) {
		handoff(b, func() func() (release func()) {
			conn := bed.conn(b)
			return func() func() {
				locks(b, conn, "SELECT GET_LOCK('handoff', 60)")
				return func() { locks(b, conn, "SELECT RELEASE_LOCK('handoff')") }
			}
		})
	})
}

func handoff(b *testing.B, contender func() (acquire func() (release func()))) {
	both := []func() func(){contender(), contender()}
	release := both[0]()
	for turn := 1; b.Loop(); turn++ {
		b.StopTimer()
		next := make(chan func(), 1)
		go func() { next <- both[turn%2]() }()
		<-time.After(50 * time.Millisecond) // the other waits
		b.StartTimer()
		release()
		release = <-next
	}
	release()
}

// BenchmarkHeld_mariadb acquires 10,000 names and renews all of them once per round. With GET_LOCK one session holds all
// locks, and a round only checks that the session is alive.
func BenchmarkHeld_mariadb(b *testing.B) {
	const held = 10_000
	bed := newBed(b, "mysql://root@"+servertest.NewMariaDB(b).Addr()+"/mysql")
	b.Run("leasing", func(b *testing.B) {
		p, reqs := bed.open(b), make([]abstractions.RenewRequest, held)
		began := time.Now()
		for i := range reqs {
			g, err := p.Acquire(b.Context(), claimOf(fmt.Sprint("bench/", i), time.Hour))
			require.NoError(b, err)
			reqs[i] = renewalOf(g)
			reqs[i].State = g.State
		}
		taken := time.Since(began)
		for b.Loop() {
			for at := 0; at < held; at += 256 { // like a manager
				results, err := p.RenewBatch(b.Context(), reqs[at:min(at+256, held)])
				require.NoError(b, err)
				for i, result := range results {
					require.NoError(b, result.Err)
					reqs[at+i].State = result.Grant.State
				}
			}
		}
		b.ReportMetric(taken.Seconds(), "take-s")
	})
	b.Run("get_lock", func(b *testing.B) {
		conn := bed.conn(b)
		began := time.Now()
		for i := range held {
			locks(b, conn, fmt.Sprintf("SELECT GET_LOCK('bench/%d', 0)", i))
		}
		taken := time.Since(began)
		for b.Loop() {
			require.NoError(b, conn.PingContext(b.Context()))
		}
		b.ReportMetric(taken.Seconds(), "take-s")
	})
}

// conn opens a separate session.
func (b *bed) conn(t testing.TB) *sql.Conn {
	db := b.connect(t)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(); db.Close() })
	return conn
}

// locks runs a query that must return 1.
func locks(t testing.TB, conn *sql.Conn, question string) {
	var answer sql.NullInt64
	if err := conn.QueryRowContext(t.Context(), question).Scan(&answer); err != nil || answer.Int64 != 1 {
		t.Errorf("%s: %v, %v", question, answer, err)
	}
}
