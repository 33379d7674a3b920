package dialect

import (
	"context"
	"database/sql"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/distributedleasing/leasing/abstractions"
	"golang.org/x/sync/semaphore"
)

// Querier is a database, a connection or a transaction of package sql.
type Querier interface {
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
}

// Statements runs statements, through package sql or directly through a client.
type Statements interface {
	// Query runs one statement, and calls the function each for every row.
	Query(ctx context.Context, statement string, args []any, each func(Scan) error) error
}

// Scan reads the columns of one row.
type Scan func(dest ...any) error

// ViaSQL runs statements through package sql.
type ViaSQL struct{ Querier }

func (q ViaSQL) Query(ctx context.Context, statement string, args []any, each func(Scan) error) error {
	rows, err := q.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rows.Close()
}

// Run runs a statement that returns no rows.
func Run(ctx context.Context, on Statements, statement string, args ...any) error {
	return on.Query(ctx, statement, args, func(Scan) error { return nil })
}

// Limited runs a limited number of statements at a time, in the order of their arrival.
type Limited struct {
	Statements
	slots *semaphore.Weighted
}

// LimitedTo reserves one of the connections for renewals, which bypass the limit. So acquires that wait for row locks, or come
// in a burst, can't make leases run out. There is no limit if connections is 1, or is 0 because the connections are unbounded.
func LimitedTo(connections int, on Statements) Limited {
	most := int64(connections - 1)
	if most < 1 {
		most = math.MaxInt64
	}
	return Limited{on, semaphore.NewWeighted(most)}
}

func (l Limited) Query(ctx context.Context, statement string, args []any, each func(Scan) error) error {
	if err := l.slots.Acquire(ctx, 1); err != nil {
		return err
	}
	defer l.slots.Release(1)
	return l.Statements.Query(ctx, statement, args, each)
}

// Beyond returns a text that sorts after all names with a prefix. It is longer than a name can be, and consists of the last code
// point of Unicode: UTF-8 sorts in the order of code points.
func Beyond(prefix string) string {
	return prefix + strings.Repeat(string(utf8.MaxRune), abstractions.MaxNameBytes/utf8.UTFMax+1)
}
