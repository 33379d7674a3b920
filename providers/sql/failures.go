package sqllease

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
)

// meaning is what an error of a database says about the request.
type meaning uint8

const (
	unknown   meaning = iota // it may have been applied: ErrUnavailable
	refused                  // for now, and rolled back: ErrThrottled
	denied                   // ErrDenied
	missing                  // ErrNotSetUp
	untenable                // the request can't work as it is: ErrInvalid
)

// sqlStates gives PostgreSQL's error codes their meaning: of the whole code,
// else of its class, the first two characters. What is not listed is unknown.
// See https://www.postgresql.org/docs/current/errcodes-appendix.html.
//
// A code is "refused" only where the server reports it instead of committing.
// A cancelled statement (57014) and a server that shuts down (57P01, 57P02)
// are not: the report may pass the commit by.
var sqlStates = map[string]meaning{
	"08":    unknown,   // connection exceptions
	"22021": untenable, // character_not_in_repertoire
	"22P05": untenable, // untranslatable_character: the database is not in UTF-8
	"25006": refused,   // read_only_sql_transaction: a standby, or a failover under way
	"28":    denied,    // invalid authorization, wrong password
	"3D000": missing,   // no such database
	"3F000": missing,   // no such schema
	"40001": refused,   // serialization_failure: roles may set a stricter isolation level
	"40003": unknown,   // statement_completion_unknown
	"40P01": refused,   // deadlock_detected
	"42501": denied,    // insufficient_privilege
	"42703": missing,   // no such column
	"42P01": missing,   // no such table
	"53":    refused,   // out of connections, memory or disk
	"55P03": refused,   // lock_not_available: lock_timeout
	"57014": unknown,   // query_canceled: statement_timeout, pg_cancel_backend
	"57P01": unknown,   // admin_shutdown
	"57P02": unknown,   // crash_shutdown
	"57P03": refused,   // cannot_connect_now: starting up or shutting down
}

func sqlStateMeaning(err error) meaning {
	// pgx and lib/pq both implement it.
	var coded interface{ SQLState() string }
	if !errors.As(err, &coded) {
		return unknown
	}
	state := coded.SQLState()
	if m, listed := sqlStates[state]; listed {
		return m
	}
	if len(state) == 5 {
		return sqlStates[state[:2]]
	}
	return unknown
}

// sqliteCodes gives SQLite's primary result codes their meaning. See
// https://sqlite.org/rescode.html. All but I/O errors leave a transaction that
// is then rolled back; BUSY at COMMIT too leaves it open.
var sqliteCodes = map[int]meaning{
	3:  denied,  // PERM
	5:  refused, // BUSY: another process holds the write lock
	6:  refused, // LOCKED
	8:  denied,  // READONLY
	9:  unknown, // INTERRUPT: the context ended
	10: unknown, // IOERR
	11: unknown, // CORRUPT
	13: refused, // FULL
	14: missing, // CANTOPEN: no such folder
	15: refused, // PROTOCOL: lost a race for the lock
	17: refused, // SCHEMA: changed by somebody else
	23: denied,  // AUTH
	26: missing, // NOTADB
}

func sqliteMeaning(err error) meaning {
	if code, ok := sqliteCode(err); ok {
		return sqliteCodes[code&0xff]
	}
	return unknown
}

// explain turns an error of the client library into one of package leasing,
// keeping both in its chain, and the context's if that has ended.
func explain(ctx context.Context, b backend, err error) error {
	ended := ctx.Err()
	if err == nil || leasingError(err) {
		return err
	}
	m := b.meaning(err)
	if m == refused && ended != nil {
		m = unknown // an SQLite lock that the caller stopped waiting for, say
	}
	switch m {
	case refused:
		err = &abstractions.ThrottledError{Err: err}
	case denied:
		err = fmt.Errorf("%w: %w", abstractions.ErrDenied, err)
	case missing:
		err = fmt.Errorf("%w: %w; check the URL, Schema and Table, and call Migrate, or set sqllease.Options.Migrate", abstractions.ErrNotSetUp, err)
	case untenable:
		err = fmt.Errorf("%w: %w", abstractions.ErrInvalid, err)
	default:
		if !errors.Is(ended, context.Canceled) { // the caller left: that says nothing of the database
			err = fmt.Errorf("%w: %w", abstractions.ErrUnavailable, err)
		}
	}
	if ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

// leasingError reports whether err says already what it means.
func leasingError(err error) bool {
	for _, sentinel := range [...]error{
		abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrClosed, abstractions.ErrUnavailable,
		abstractions.ErrInvalid, abstractions.ErrDenied, abstractions.ErrNotSetUp, abstractions.ErrStale, abstractions.ErrUnsupported,
	} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}
