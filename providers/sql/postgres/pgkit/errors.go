package pgkit

import (
	"errors"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// unprepared is the verdict on a connection behind a pooler that gives each transaction another session.
var unprepared = sqlkit.Verdict{
	Meaning: providerkit.Meaning{
		Class:  providerkit.Refused,
		Advice: "a pooler may forget prepared statements: see default_query_exec_mode=exec",
	},
	Close: true, Unprepared: true,
}

// sqlStates gives PostgreSQL's error codes their verdicts: of the whole code, else of its class, the first
// two characters. A code that is not listed leaves the outcome unknown.
// See https://www.postgresql.org/docs/current/errcodes-appendix.html.
//
// A code is Refused only where the server reports it instead of committing.
// A connection that fails (08), a cancelled statement (57014) and a server that shuts down
// (57P01, 57P02) are not: the report may pass the commit by.
var sqlStates = map[string]sqlkit.Verdict{
	"22021": sqlkit.Is(providerkit.Invalid),  // character_not_in_repertoire
	"22P05": sqlkit.Is(providerkit.Invalid),  // untranslatable_character: the database is not in UTF-8
	"23":    sqlkit.Is(providerkit.NotSetUp), // constraints that our tables don't have: another application's table
	// read_only_sql_transaction: a standby, or a failover under way
	"25006": sqlkit.Closing(providerkit.Refused, "the server is read-only: name the primary, or all servers and target_session_attrs=read-write"),
	"25P02": sqlkit.Closing(providerkit.Refused, ""), // in_failed_sql_transaction: another user of the pool has left one
	"26000": unprepared,                              // invalid_sql_statement_name
	"28":    sqlkit.Is(providerkit.Denied),           // invalid authorization, wrong password
	"3D000": sqlkit.Is(providerkit.NotSetUp),         // no such database
	"3F000": sqlkit.Is(providerkit.NotSetUp),         // no such schema
	"40001": sqlkit.Is(providerkit.Refused),          // serialization_failure: roles may set a stricter isolation level
	"40P01": sqlkit.Is(providerkit.Refused),          // deadlock_detected
	"42501": sqlkit.Is(providerkit.Denied),           // insufficient_privilege
	"42703": sqlkit.Is(providerkit.NotSetUp),         // undefined_column
	"42704": sqlkit.Is(providerkit.NotSetUp),         // undefined_object
	"42809": sqlkit.Is(providerkit.NotSetUp),         // wrong_object_type: a view
	"42883": sqlkit.Is(providerkit.NotSetUp),         // undefined_function
	"42P01": sqlkit.Is(providerkit.NotSetUp),         // undefined_table
	"42P05": unprepared,                              // duplicate_prepared_statement
	"42P10": sqlkit.Is(providerkit.NotSetUp),         // invalid_column_reference: no key to conflict with
	"53":    sqlkit.Is(providerkit.Refused),          // out of connections, memory or disk
	"55000": sqlkit.Is(providerkit.NotSetUp),         // object_not_in_prerequisite_state: a view
	"55P03": sqlkit.Is(providerkit.Refused),          // lock_not_available: lock_timeout, or a pool of one connection
	"57P01": sqlkit.Closing(providerkit.Unknown, ""), // admin_shutdown
	"57P02": sqlkit.Closing(providerkit.Unknown, ""), // crash_shutdown
	"57P03": sqlkit.Closing(providerkit.Refused, ""), // cannot_connect_now: starting up or shutting down
	"57P04": sqlkit.Closing(providerkit.Unknown, ""), // database_dropped
	"57P05": sqlkit.Closing(providerkit.Refused, ""), // idle_session_timeout, which no statement meets
}

// unsure are the codes, and the classes of codes, whose report may pass a commit by: the session or the server
// ends, or the server itself does not know. Each other code is that of a transaction which is rolled back, also those
// that an application raises.
var unsure = map[string]bool{
	"08": true, "57": true, "58": true, "F0": true, "XX": true,
	"25P03": true, // idle_in_transaction_session_timeout
	"25P04": true, // transaction_timeout
	"40003": true, // statement_completion_unknown
}

// Verdict judges an error of a driver for PostgreSQL: pgx, lib/pq, or another one whose errors have
// a method SQLState.
func Verdict(err error) (v sqlkit.Verdict) {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		state := coded.SQLState()
		listed, known := sqlStates[state]
		if !known && len(state) == 5 {
			listed = sqlStates[state[:2]]
		}
		v = listed
		v.RolledBack = len(state) == 5 && !unsure[state] && !unsure[state[:2]]
	}
	// COMMIT ends a transaction in which a statement has failed, and reports no error.
	v.RolledBack = v.RolledBack || errors.Is(err, pgx.ErrTxCommitRollback)
	// Neither pgx nor database/sql repeats a statement that may have been sent.
	if unconnected := (*pgconn.ConnectError)(nil); v.Class == providerkit.Unknown && (errors.As(err, &unconnected) || coded == nil && providerkit.NotSent(err)) {
		v.Class = providerkit.Unsent
	}
	return v
}

// IsDuplicate reports whether a row with the same key is there already, on PostgreSQL.
func IsDuplicate(err error) bool {
	var coded interface{ SQLState() string }
	return errors.As(err, &coded) && coded.SQLState() == "23505"
}
