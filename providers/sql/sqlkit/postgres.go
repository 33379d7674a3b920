package sqlkit

import "github.com/distributedleasing/leasing/abstractions/providerkit"

// UniqueViolation is PostgreSQL's error code for a row whose key is in the table already.
const UniqueViolation = "23505"

// poolerVerdict is the verdict on a connection behind a pooler that gives each transaction another session.
var poolerVerdict = Verdict{
	Meaning: providerkit.Meaning{
		Class:  providerkit.Refused,
		Advice: "a pooler may forget prepared statements: see default_query_exec_mode=exec",
	},
	Close: true, Unprepared: true,
}

// sqlStates has the verdicts on PostgreSQL's error codes: by the whole code, or else by its class, the
// first two characters. A code that is not listed leaves the outcome unknown. See
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
//
// A code is Refused only where the server reports it instead of committing. A connection
// that fails (08), a cancelled statement (57014) and a server that shuts down (57P01,
// 57P02) are not Refused: the error may be reported although the transaction was
// committed.
var sqlStates = map[string]Verdict{
	"22021": Is(providerkit.Invalid),  // character_not_in_repertoire
	"22P05": Is(providerkit.Invalid),  // untranslatable_character: the database is not in UTF-8
	"23":    Is(providerkit.NotSetUp), // constraints that our tables don't have: another application's table
	// read_only_sql_transaction: a standby, or a failover under way
	"25006": Closing(providerkit.Refused, "the server is read-only: name the primary, or all servers and target_session_attrs=read-write"),
	"25P02": Closing(providerkit.Refused, ""), // in_failed_sql_transaction: another user of the pool has left it open
	"26000": poolerVerdict,                    // invalid_sql_statement_name
	"28":    Is(providerkit.Denied),           // invalid authorization, wrong password
	"3D000": Is(providerkit.NotSetUp),         // no such database
	"3F000": Is(providerkit.NotSetUp),         // no such schema
	"40001": Is(providerkit.Refused),          // serialization_failure: roles may set a stricter isolation level
	"40P01": Is(providerkit.Refused),          // deadlock_detected
	"42501": Is(providerkit.Denied),           // insufficient_privilege
	"42703": Is(providerkit.NotSetUp),         // undefined_column
	"42704": Is(providerkit.NotSetUp),         // undefined_object
	"42809": Is(providerkit.NotSetUp),         // wrong_object_type: a view
	"42883": Is(providerkit.NotSetUp),         // undefined_function
	"42P01": Is(providerkit.NotSetUp),         // undefined_table
	"42P05": poolerVerdict,                    // duplicate_prepared_statement
	"42P10": Is(providerkit.NotSetUp),         // invalid_column_reference: no key to conflict with
	"53":    Is(providerkit.Refused),          // out of connections, memory or disk
	"55000": Is(providerkit.NotSetUp),         // object_not_in_prerequisite_state: a view
	"55P03": Is(providerkit.Refused),          // lock_not_available: lock_timeout, or a pool of one connection
	"57P01": Closing(providerkit.Unknown, ""), // admin_shutdown
	"57P02": Closing(providerkit.Unknown, ""), // crash_shutdown
	"57P03": Closing(providerkit.Refused, ""), // cannot_connect_now: starting up or shutting down
	"57P04": Closing(providerkit.Unknown, ""), // database_dropped
	"57P05": Closing(providerkit.Refused, ""), // idle_session_timeout, which interrupts no statement
}

// ambiguousStates are the codes, and the classes of codes, that may be reported although the transaction was committed: the
// session or the server ends, or the server itself does not know. Any other code, even one that an application
// raises, means that the transaction is rolled back.
var ambiguousStates = map[string]bool{
	"08": true, "57": true, "58": true, "F0": true, "XX": true,
	"25P03": true, // idle_in_transaction_session_timeout
	"25P04": true, // transaction_timeout
	"40003": true, // statement_completion_unknown
}

// PostgreSQL returns the verdict on PostgreSQL's error code (SQLSTATE) of five characters.
func PostgreSQL(state string) Verdict {
	if len(state) != 5 {
		return Verdict{}
	}
	v, listed := sqlStates[state]
	if !listed {
		v = sqlStates[state[:2]]
	}
	v.RolledBack = !ambiguousStates[state] && !ambiguousStates[state[:2]]
	return v
}
