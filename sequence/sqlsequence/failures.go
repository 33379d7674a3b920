package sqlsequence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/jackc/pgx/v5/pgconn"
)

// sqlStates says what PostgreSQL's error codes mean: of the whole code, else of its class, the first two
// characters. What is not listed leaves the outcome unknown. A code is Refused only where the
// server reports it instead of committing.
// See https://www.postgresql.org/docs/current/errcodes-appendix.html.
var sqlStates = map[string]providerkit.Class{
	"25006": providerkit.Refused,  // read_only_sql_transaction: a standby, or a failover under way
	"28":    providerkit.Denied,   // invalid authorization
	"3D000": providerkit.NotSetUp, // no such database
	"3F000": providerkit.NotSetUp, // no such schema
	"40001": providerkit.Refused,  // serialization_failure
	"40P01": providerkit.Refused,  // deadlock_detected
	"42":    providerkit.NotSetUp, // no such table or column
	"42501": providerkit.Denied,   // insufficient_privilege
	"53":    providerkit.Refused,  // out of connections, memory or disk
	"55P03": providerkit.Refused,  // lock_not_available
	"57P03": providerkit.Refused,  // cannot_connect_now
}

// sqliteCodes says the same of SQLite's primary result codes. See https://sqlite.org/rescode.html.
var sqliteCodes = map[int]providerkit.Class{
	1:  providerkit.NotSetUp, // ERROR: no such table or column; our statements have no other mistake
	3:  providerkit.Denied,   // PERM
	5:  providerkit.Refused,  // BUSY: another process holds the write lock
	6:  providerkit.Refused,  // LOCKED
	8:  providerkit.Denied,   // READONLY
	15: providerkit.Refused,  // PROTOCOL: lost a race for the lock
	17: providerkit.Refused,  // SCHEMA: changed by somebody else
	26: providerkit.NotSetUp, // NOTADB
}

// explain gives an error of the database its meaning. What it says of contexts stays.
func (s *Store[Tx]) explain(err error) error {
	if err == nil { // before there is anything on the heap
		return nil
	}
	var known *answered
	var coded interface{ SQLState() string }
	var unconnected *pgconn.ConnectError
	var meaning providerkit.Meaning
	switch {
	case errors.As(err, &known):
		return known.error
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // unknown
	case errors.As(err, &coded):
		state := coded.SQLState()
		meaning.Class = cmp.Or(sqlStates[state], sqlStates[state[:min(2, len(state))]])
	case s.lite:
		meaning.Class = sqliteCodes[sqliteCode(err)&0xff]
	case errors.As(err, &unconnected), providerkit.NotSent(err):
		meaning.Class = providerkit.Unsent
	}
	if meaning.Class == providerkit.NotSetUp {
		meaning.Advice = "check Options, and call Migrate"
	}
	return fmt.Errorf("sequence: %w", meaning.Of(err))
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
