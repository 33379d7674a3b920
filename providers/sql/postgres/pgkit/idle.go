package pgkit

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"time"

	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// hangUpTime bounds the last message on a connection that is closed.
const hangUpTime = 100 * time.Millisecond

// CheckIdle returns options with which a connector of pgx checks connections that were idle, and closes each that does not answer
// in time.
func CheckIdle() []stdlib.OptionOpenDB {
	return []stdlib.OptionOpenDB{
		stdlib.OptionShouldPing(func(ctx context.Context, p stdlib.ShouldPingParams) bool {
			if p.IdleDuration > sqlkit.Idle {
				check(ctx, p.Conn)
			}
			return false // pgx's own check could use up the request's time
		}),
		stdlib.OptionResetSession(func(_ context.Context, conn *pgx.Conn) error {
			if conn.IsClosed() {
				return sqldriver.ErrBadConn
			}
			return nil
		}),
	}
}

func check(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(ctx, sqlkit.CheckTime(ctx))
	defer cancel()
	if conn.Ping(ctx) != nil {
		HangUp(conn)
	}
}

// HangUp closes a connection without waiting for its server.
func HangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), hangUpTime)
	defer cancel()
	_ = conn.Close(ctx)
}

// DropPool closes the idle connections of a pool.
func DropPool(pool *pgxpool.Pool) {
	for _, conn := range pool.AcquireAllIdle(context.Background()) {
		HangUp(conn.Conn())
		conn.Release()
	}
}

// DropDB closes the idle connections of a database handle, without changing the handle's settings. Closing all of them may take
// as long as one check.
func DropDB(ctx context.Context, db *sql.DB) {
	idle := db.Stats().Idle
	for range idle {
		dropOne(ctx, db, sqlkit.CheckTime(ctx)/time.Duration(idle))
	}
}

// dropOne closes the pool's next idle connection. A driver that checks connections itself closes one that does not answer in
// time.
func dropOne(ctx context.Context, db *sql.DB, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // makes the pool close it
}

// AcquireChecked takes a connection from a pool whose connections may have been idle for a long time. If the first connection
// does not answer in time, the other idle connections are closed too, since they use the same network path.
func AcquireChecked(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	if pool.Stat().IdleConns() == 0 {
		return pool.Acquire(ctx)
	}
	short, cancel := context.WithTimeout(ctx, sqlkit.CheckTime(ctx)) // a connection is idle, so Acquire neither waits for a place nor connects
	defer cancel()
	conn, err := pool.Acquire(short)
	if err == nil || short.Err() == nil || ctx.Err() != nil {
		return conn, err
	}
	DropPool(pool)
	return pool.Acquire(ctx)
}

// ConnChecked is AcquireChecked for a database of package sql.
func ConnChecked(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	if db.Stats().Idle == 0 {
		return db.Conn(ctx)
	}
	short, cancel := context.WithTimeout(ctx, sqlkit.CheckTime(ctx))
	defer cancel()
	conn, err := db.Conn(short)
	switch {
	case err != nil && (short.Err() == nil || ctx.Err() != nil):
		return nil, err
	case err == nil && conn.PingContext(short) == nil: // not every driver checks connections
		return conn, nil
	case err == nil:
		_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn })
		_ = conn.Close()
	}
	DropDB(ctx, db)
	return db.Conn(ctx)
}
