package sqllease

import (
	sqldriver "database/sql/driver"
	"errors"
	"io/fs"
	"syscall"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/jackc/pgx/v5/pgconn"
)

// sqlStates gives PostgreSQL's error codes their class: of the whole code,
// else of its class, the first two characters. What is not listed is unknown.
// See https://www.postgresql.org/docs/current/errcodes-appendix.html.
//
// A code is Refused only where the server reports it instead of committing.
// A connection that fails (08), a cancelled statement (57014) and a server that shuts down
// (57P01, 57P02) are not: the report may pass the commit by.
var sqlStates = map[string]providerkit.Class{
	"22021": providerkit.Invalid,  // character_not_in_repertoire
	"22P05": providerkit.Invalid,  // untranslatable_character: the database is not in UTF-8
	"23":    providerkit.NotSetUp, // constraints that our tables don't have: a table of somebody else
	"25006": providerkit.Refused,  // read_only_sql_transaction: a standby, or a failover under way
	"28":    providerkit.Denied,   // invalid authorization, wrong password
	"3D000": providerkit.NotSetUp, // no such database
	"3F000": providerkit.NotSetUp, // no such schema
	"40001": providerkit.Refused,  // serialization_failure: roles may set a stricter isolation level
	"40P01": providerkit.Refused,  // deadlock_detected
	"42":    providerkit.NotSetUp, // no such table or column, no key to conflict with, a view
	"42501": providerkit.Denied,   // insufficient_privilege
	"53":    providerkit.Refused,  // out of connections, memory or disk
	"55000": providerkit.NotSetUp, // object_not_in_prerequisite_state: a view
	"55P03": providerkit.Refused,  // lock_not_available: lock_timeout, or a pool of one connection
	"57P03": providerkit.Refused,  // cannot_connect_now: starting up or shutting down
}

func sqlStateClass(err error) providerkit.Class {
	// pgx and lib/pq both implement it.
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		state := coded.SQLState()
		if class, listed := sqlStates[state]; listed {
			return class
		}
		if len(state) == 5 {
			return sqlStates[state[:2]]
		}
	}
	// Neither pgx nor database/sql repeats a statement that may have been sent.
	if refused := (*pgconn.ConnectError)(nil); errors.As(err, &refused) || providerkit.NotSent(err) {
		return providerkit.Unsent
	}
	return providerkit.Unknown
}

// sqliteCodes gives SQLite's primary result codes their class. What is not listed is unknown. See
// https://sqlite.org/rescode.html. All but I/O errors leave a transaction that
// is then rolled back; BUSY at COMMIT too leaves it open.
//
// A full disk (13, or 10 with some drivers) is unknown: the log may have the commit already when the write of
// what pads it to a sector fails, and a restart would find it there.
var sqliteCodes = map[int]providerkit.Class{
	1:  providerkit.NotSetUp, // ERROR: no such table or column; our statements have no other mistake
	3:  providerkit.Denied,   // PERM
	5:  providerkit.Refused,  // BUSY: another process holds the write lock
	6:  providerkit.Refused,  // LOCKED
	8:  providerkit.Denied,   // READONLY
	15: providerkit.Refused,  // PROTOCOL: lost a race for the lock
	17: providerkit.Refused,  // SCHEMA: changed by somebody else
	19: providerkit.NotSetUp, // CONSTRAINT: a table of somebody else
	20: providerkit.NotSetUp, // MISMATCH: likewise
	23: providerkit.Denied,   // AUTH
	26: providerkit.NotSetUp, // NOTADB
}

// openingFailures tell why a file could not be opened, where the driver lets the
// system's error through. Nothing was written then.
var openingFailures = []struct {
	err   error
	class providerkit.Class
}{
	{syscall.EMFILE, providerkit.Refused}, // too many open files
	{syscall.ENFILE, providerkit.Refused},
	{fs.ErrPermission, providerkit.Denied},
	{syscall.EROFS, providerkit.Denied},
	{fs.ErrNotExist, providerkit.NotSetUp}, // no such folder
	{syscall.ENOTDIR, providerkit.NotSetUp},
	{syscall.EISDIR, providerkit.NotSetUp},
}

const sqliteCantOpen = 14

func sqliteClass(err error) providerkit.Class {
	code, ok := sqliteCode(err)
	if !ok {
		return providerkit.Unknown
	}
	if code&0xff == sqliteCantOpen {
		for _, failure := range openingFailures {
			if errors.Is(err, failure.err) {
				return failure.class
			}
		}
	}
	return sqliteCodes[code&0xff]
}

// Classify says what an error of a driver means.
func (d *driver) Classify(err error) providerkit.Meaning {
	m := providerkit.Meaning{Class: d.backend.class(err)}
	if m.Class == providerkit.NotSetUp {
		m.Advice = "check the URL, Schema and Table, and call Migrate, or set sqllease.Options.Create"
	}
	return m
}

// mysqlNumbers gives the codes of MariaDB and MySQL their class. What is not listed is unknown. See
// https://mariadb.com/kb/en/mariadb-error-codes/. A connection that was killed (1317, 1927), a shutdown (1053) and a
// commit that failed (1180) may pass a commit by.
var mysqlNumbers = map[int]providerkit.Class{
	1020: providerkit.Refused,  // ER_CHECKREAD: the row has changed since the snapshot
	1040: providerkit.Refused,  // ER_CON_COUNT_ERROR: too many connections
	1044: providerkit.Denied,   // ER_DBACCESS_DENIED_ERROR
	1045: providerkit.Denied,   // ER_ACCESS_DENIED_ERROR
	1046: providerkit.NotSetUp, // ER_NO_DB_ERROR
	1049: providerkit.NotSetUp, // ER_BAD_DB_ERROR
	1050: providerkit.NotSetUp, // ER_TABLE_EXISTS_ERROR
	1054: providerkit.NotSetUp, // ER_BAD_FIELD_ERROR: a table of somebody else, as are those below
	1062: providerkit.NotSetUp, // ER_DUP_ENTRY
	1114: providerkit.Refused,  // ER_RECORD_FILE_FULL
	1129: providerkit.Refused,  // ER_HOST_IS_BLOCKED
	1130: providerkit.Denied,   // ER_HOST_NOT_PRIVILEGED
	1136: providerkit.NotSetUp, // ER_WRONG_VALUE_COUNT_ON_ROW
	1142: providerkit.Denied,   // ER_TABLEACCESS_DENIED_ERROR
	1143: providerkit.Denied,   // ER_COLUMNACCESS_DENIED_ERROR
	1146: providerkit.NotSetUp, // ER_NO_SUCH_TABLE
	1203: providerkit.Refused,  // ER_TOO_MANY_USER_CONNECTIONS
	1205: providerkit.Refused,  // ER_LOCK_WAIT_TIMEOUT
	1213: providerkit.Refused,  // ER_LOCK_DEADLOCK
	1226: providerkit.Refused,  // ER_USER_LIMIT_REACHED
	1227: providerkit.Denied,   // ER_SPECIFIC_ACCESS_DENIED_ERROR
	1290: providerkit.Refused,  // ER_OPTION_PREVENTS_STATEMENT: read-only
	1364: providerkit.NotSetUp, // ER_NO_DEFAULT_FOR_FIELD
	1366: providerkit.Invalid,  // ER_TRUNCATED_WRONG_VALUE_FOR_FIELD
	1406: providerkit.NotSetUp, // ER_DATA_TOO_LONG: not for columns of ours
	1665: providerkit.NotSetUp, // ER_BINLOG_STMT_MODE_AND_ROW_ENGINE: binlog_format has to be MIXED or ROW
	1698: providerkit.Denied,   // ER_ACCESS_DENIED_NO_PASSWORD_ERROR
	1792: providerkit.Refused,  // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
	1836: providerkit.Refused,  // ER_READ_ONLY_MODE
}

func mysqlClass(err error, number int) providerkit.Class {
	// ErrBadConn: nothing was sent, on this connection and on those that the pool has tried next.
	if errors.Is(err, sqldriver.ErrBadConn) || number == 0 && providerkit.NotSent(err) {
		return providerkit.Unsent
	}
	return mysqlNumbers[number]
}
