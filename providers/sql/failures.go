package sqllease

import (
	sqldriver "database/sql/driver"
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/ncruces/go-sqlite3"
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

func (p *postgres) class(err error) providerkit.Class {
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

const sqliteCantOpen = 14

// sqliteClass knows the errors of ncruces' driver, and of one whose errors have a Code method that returns an int, as modernc's have.
func sqliteClass(err error) providerkit.Class {
	var ours sqlite3.ExtendedErrorCode
	var theirs interface{ Code() int }
	code := 0
	if errors.As(err, &ours) {
		code = int(ours)
	} else if errors.As(err, &theirs) {
		code = theirs.Code()
	}
	if code&0xff == sqliteCantOpen { // nothing was written; why not is told where the driver lets the system's error through
		switch {
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE): // too many open files
			return providerkit.Refused
		case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
			return providerkit.Denied
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR): // no such folder
			return providerkit.NotSetUp
		}
	}
	return sqliteCodes[code&0xff]
}

// mysqlNumbers are the codes of MariaDB and MySQL by their class. What is not listed is unknown: a statement or connection that was killed
// (1317, 1927), a shutdown (1053) and a commit that failed (1180) may pass a commit by. See https://mariadb.com/kb/en/mariadb-error-codes/.
var mysqlNumbers = map[providerkit.Class][]int{
	// A lock that was waited for too long, also that of the history's numbers, a deadlock, a row that has changed; too many
	// connections, a host that is blocked; a full table; a server that is read-only.
	providerkit.Refused: {1205, 1467, 1213, 1020, 1040, 1203, 1226, 1129, 1114, 1290, 1792, 1836},
	// No access to the server, the database, a table or a column; a missing right.
	providerkit.Denied: {1044, 1045, 1130, 1142, 1143, 1227, 1698},
	// No such database or table; a table of somebody else: other columns, keys and lengths; a binary log of statements.
	providerkit.NotSetUp: {1046, 1049, 1050, 1054, 1062, 1136, 1146, 1364, 1406, 1665},
	providerkit.Invalid:  {1366}, // a text that the column does not take
}

func (m *mysql) class(err error) providerkit.Class {
	number := m.number(err)
	if errors.Is(err, sqldriver.ErrBadConn) || number == 0 && providerkit.NotSent(err) { // nothing was sent
		return providerkit.Unsent
	}
	for class, numbers := range mysqlNumbers {
		if slices.Contains(numbers, number) {
			return class
		}
	}
	return providerkit.Unknown
}

// Classify says what an error of a driver means.
func (d *driver) Classify(err error) providerkit.Meaning {
	m := providerkit.Meaning{Class: d.backend.class(err)}
	if m.Class == providerkit.NotSetUp {
		m.Advice = "check the URL, Schema and Table, and call Migrate, or set sqllease.Options.Create"
	}
	return m
}
