package sqlkit

import (
	"context"
	"database/sql"
	"time"
)

// Idle is the longest time for which a connection may be idle and still be used without a check.
const Idle = time.Second

// CheckTime bounds the check of an idle connection: a tenth of the request's time, and
// at most a second.
func CheckTime(ctx context.Context) time.Duration {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return time.Second
	}
	return min(time.Second, time.Until(deadline)/10)
}

// DropIdle closes the idle connections of our own pool.
func DropIdle(db *sql.DB, size int) {
	db.SetMaxIdleConns(0)
	db.SetMaxIdleConns(size)
}
