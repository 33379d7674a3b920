package sqlsequence

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/jackc/pgx/v5/pgconn"
)

// sqlStates says what PostgreSQL's error codes mean: of the whole code, else of its class, the first two
// characters. What is not listed leaves the outcome unknown. A code is ErrThrottled only where the
// server reports it instead of committing.
// See https://www.postgresql.org/docs/current/errcodes-appendix.html.
var sqlStates = map[string]error{
	"25006": leasing.ErrThrottled, // read_only_sql_transaction: a standby, or a failover under way
	"28":    leasing.ErrDenied,    // invalid authorization
	"3D000": leasing.ErrNotSetUp,  // no such database
	"3F000": leasing.ErrNotSetUp,  // no such schema
	"40001": leasing.ErrThrottled, // serialization_failure
	"40P01": leasing.ErrThrottled, // deadlock_detected
	"42":    leasing.ErrNotSetUp,  // no such table or column
	"42501": leasing.ErrDenied,    // insufficient_privilege
	"53":    leasing.ErrThrottled, // out of connections, memory or disk
	"55P03": leasing.ErrThrottled, // lock_not_available
	"57P03": leasing.ErrThrottled, // cannot_connect_now
}

// sqliteCodes says the same of SQLite's primary result codes. See https://sqlite.org/rescode.html.
var sqliteCodes = map[int]error{
	1:  leasing.ErrNotSetUp,  // ERROR: no such table or column; our statements have no other mistake
	3:  leasing.ErrDenied,    // PERM
	5:  leasing.ErrThrottled, // BUSY: another process holds the write lock
	6:  leasing.ErrThrottled, // LOCKED
	8:  leasing.ErrDenied,    // READONLY
	15: leasing.ErrThrottled, // PROTOCOL: lost a race for the lock
	17: leasing.ErrThrottled, // SCHEMA: changed by somebody else
	26: leasing.ErrNotSetUp,  // NOTADB
}

// explain gives an error of the database its meaning. What it says of contexts stays.
func (s *Store[Tx]) explain(err error) error {
	var known *answered
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known.error
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("sequence: %w: %w", leasing.ErrUnavailable, err)
	}
	meaning := leasing.ErrUnavailable
	var coded interface{ SQLState() string }
	switch {
	case errors.As(err, &coded):
		state := coded.SQLState()
		if m := sqlStates[state]; m != nil {
			meaning = m
		} else if m := sqlStates[state[:min(2, len(state))]]; m != nil {
			meaning = m
		}
	case s.lite:
		if m := sqliteCodes[sqliteCode(err)&0xff]; m != nil {
			meaning = m
		}
	default:
		if refused := (*pgconn.ConnectError)(nil); errors.As(err, &refused) || providerkit.NotSent(err) {
			return providerkit.MarkNotApplied(fmt.Errorf("sequence: %w: %w", leasing.ErrUnavailable, err))
		}
	}
	if errors.Is(meaning, leasing.ErrThrottled) {
		return &leasing.ThrottledError{Err: fmt.Errorf("sequence: %w", err)}
	}
	if errors.Is(meaning, leasing.ErrNotSetUp) {
		return fmt.Errorf("sequence: %w: %w; check Options, and call Migrate", meaning, err)
	}
	return fmt.Errorf("sequence: %w: %w", meaning, err)
}

// sqliteCode is the result code behind an error of a driver for SQLite, or 0: a number itself, or what its
// method Code returns. The type is not named, so that nobody links a driver that he doesn't use.
func sqliteCode(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		v := reflect.ValueOf(err)
		if !strings.Contains(reflect.Indirect(v).Type().PkgPath(), "sqlite") {
			continue
		}
		if method := v.MethodByName("Code"); method.IsValid() && method.Type().NumIn() == 0 && method.Type().NumOut() == 1 {
			v = method.Call(nil)[0]
		}
		switch {
		case v.CanInt():
			return int(v.Int())
		case v.CanUint():
			return int(v.Uint())
		}
	}
	return 0
}

func uniqueViolation(err error) bool {
	var coded interface{ SQLState() string }
	return errors.As(err, &coded) && coded.SQLState() == "23505"
}
