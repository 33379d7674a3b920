package sqlitelease

import (
	"context"
	"fmt"

	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/ncruces/go-sqlite3"
)

// sqliteWriter is a connection with which one goroutine writes at a time. Statements within a
// transaction take microseconds, and an interrupt in the middle would only waste the work
// done. So only the beginning and the end of a transaction depend on its context.
type sqliteWriter interface {
	dialect.Statements
	exec(ctx context.Context, statement string) error
	close(healthy bool)
}

// sqliteSession writes to a database of our own, with prepared statements. It does not use
// package sql, which takes longer than SQLite itself.
type sqliteSession struct {
	conn     *sqlite3.Conn
	prepared map[string]*sqlite3.Stmt
}

func (s *sqliteSession) exec(ctx context.Context, statement string) error {
	prepared, err := s.prepare(statement)
	if err != nil {
		return err
	}
	defer s.conn.SetInterrupt(s.conn.SetInterrupt(ctx))
	return prepared.Exec()
}

func (s *sqliteSession) prepare(statement string) (*sqlite3.Stmt, error) {
	prepared := s.prepared[statement]
	if prepared == nil {
		var err error
		if prepared, _, err = s.conn.Prepare(statement); err != nil {
			return nil, err
		}
		s.prepared[statement] = prepared
	}
	return prepared, nil
}

func (s *sqliteSession) Query(_ context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	prepared, err := s.prepare(statement)
	if err != nil {
		return err
	}
	for i, arg := range args {
		if err := bind(prepared, i+1, arg); err != nil {
			return err
		}
	}
	for prepared.Step() {
		if err := each(func(dest ...any) error { return scanRow(prepared, dest) }); err != nil {
			_ = prepared.Reset()
			return err
		}
	}
	return prepared.Reset() // returns the error from Step
}

// bind sets a parameter, which has one of the types of our statements.
func bind(to *sqlite3.Stmt, at int, arg any) error {
	switch arg := arg.(type) {
	case string:
		return to.BindText(at, arg)
	case *string:
		return to.BindText(at, *arg)
	case int64:
		return to.BindInt64(at, arg)
	case *int64:
		return to.BindInt64(at, *arg)
	case **int64:
		if *arg == nil {
			return to.BindNull(at)
		}
		return to.BindInt64(at, **arg)
	case int:
		return to.BindInt(at, arg)
	case *bool:
		return to.BindBool(at, *arg)
	case *[]byte:
		return to.BindBlob(at, *arg)
	}
	return fmt.Errorf("sqlitelease: no parameter can be a %T", arg)
}

// scanRow reads the columns of the current row. Tables are strict, so each column has its type.
func scanRow(from *sqlite3.Stmt, dest []any) error {
	for i, to := range dest {
		switch to := to.(type) {
		case *string:
			*to = from.ColumnText(i)
		case *[]byte:
			*to = from.ColumnBlob(i, []byte{})
		case *int64:
			*to = from.ColumnInt64(i)
		case *int:
			*to = from.ColumnInt(i)
		case *bool:
			*to = from.ColumnInt64(i) != 0
		case **int64:
			if *to = nil; from.ColumnType(i) != sqlite3.NULL {
				n := from.ColumnInt64(i)
				*to = &n
			}
		default:
			return fmt.Errorf("sqlitelease: no column is a %T", to)
		}
	}
	return from.Err()
}

func (s *sqliteSession) close(bool) {
	for _, statement := range s.prepared {
		_ = statement.Close()
	}
	_ = s.conn.Close()
}
