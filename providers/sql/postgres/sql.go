package postgreslease

import (
	"embed"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/abstractions/providerkit/waitqueue"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

// files has the statements, one per file.
//
//go:embed statements/*.sql
var files embed.FS

// postgresTables fills in the statements for one schema and table. "renew_now" is a "renew" that skips locked rows. "acquire"
// and "release" are missing where the statements for many also serve single requests. Where a connection must never wait for a
// row lock, a locked row is an error (55P03, lock_not_available).
func postgresTables(o Options, waits bool) dialect.Tables {
	holes := map[string]string{
		"namespace":     o.Schema,
		"now":           "pg_catalog.clock_timestamp()",
		"history_us":    strconv.FormatInt(dialect.Finite(o.HistoryRetention).Microseconds(), 10),
		"ended_least":   strconv.Itoa(providerkit.EndedLeast),
		"ended_most":    strconv.Itoa(providerkit.EndedMost),
		"ended_for":     strconv.Itoa(int(providerkit.EndedFor / time.Second)),
		"ended_bytes":   strconv.Itoa(dialect.EndedBytes),
		"ended_dropped": strconv.Itoa(dialect.EndedDropped),
		"most":          strconv.Itoa(batch.MaxOperations - 1),
		"lock":          "FOR UPDATE OF l",
		"if_history":    "",
		"waiter_bytes":  strconv.Itoa(dialect.WaiterBytes),
		"most_waiters":  strconv.Itoa(dialect.WaiterBytes * dialect.MostWaiters),
		"grace":         fmt.Sprintf("interval '%d milliseconds'", waitqueue.Grace.Milliseconds()),
		"grace_ms":      strconv.FormatInt(waitqueue.Grace.Milliseconds(), 10),
		"before_last":   strconv.FormatInt(abstractions.MaxToken-1, 10),
	}
	maps.Copy(holes, fragments)
	if o.History {
		holes["if_history"] = "?"
	}
	if !waits {
		holes["lock"] += " NOWAIT"
	}
	t := dialect.NewTables(o.Schema, o.Table, `"`, holes, files)
	t.Suffixes = append(t.Suffixes, dialect.WaitersSuffix)
	if !waits || o.History {
		delete(t.SQL, "acquire")
		delete(t.SQL, "release")
	}
	holes["lock"] = "FOR UPDATE OF l SKIP LOCKED"
	t.SQL["renew_now"] = dialect.StatementIn(files, "statements/renew.sql", holes)
	return t
}

// fragments are the same for all tables.
//
// An operator is named with its schema where its operands do not have exactly the types of an
// operator in pg_catalog: another schema of the search path may have an operator with these types
// (https://www.postgresql.org/docs/current/typeconv-oper.html).
var fragments = map[string]string{
	// A time in microseconds since 1970: its text form depends on DateStyle.
	"micros": "(extract(epoch FROM ?) OPERATOR(pg_catalog.*) 1000000)::bigint",
	// A number of microseconds, as an interval.
	"span": "(? OPERATOR(pg_catalog.*) interval '1 microsecond')",
	// pgColumns, of a row that may be missing. The text form of bytes depends on bytea_output.
	"row": `coalesce(?.version, 0), coalesce(?.token, 0), coalesce(?.id, ''), coalesce(?.owner, ''), ?.ttl_us, coalesce(?.metadata::text, '{}'),
	{{micros:?.acquired_at}}, coalesce({{micros:?.expires_at}}, 0), coalesce(?.breaking, false), coalesce(?.broken_by, ''), coalesce(?.break_reason, ''), pg_catalog.encode(?.ended, 'hex')`,
	// abstractions.FingerprintOf an ID, for the history.
	"fingerprint": `('fp_' || pg_catalog.substr(pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to('leasing claim ' || ?, 'UTF8')), 'hex'), 1, 16))`,
	// Whether a row is free at a time: its lease or its reservation has run out. A
	// reservation for more than a minute was made before the clock was set back, and does
	// not count.
	"free": "(NOT l.breaking AND coalesce(l.expires_at <= ?, l.id = '') OR l.id = '' AND (l.waiters = '' OR l.expires_at > ? + interval '1 minute'))",
	// The highest forgotten token, or NULL: see dialect.Row.
	"floor": "(SELECT f.token FROM {{lease}} AS f WHERE f.name = '')",
	// Whether the clock can be the token of a new name: it is above the floor, and below the last token.
	"above": "(coalesce({{floor}} < ?, true) AND ? <= {{before_last}})",
	// Whether a row's token is neither 0 (no token yet) nor the last token: then the rule of an acquire may ignore the token.
	"plain": "l.token BETWEEN 1 AND {{before_last}}",
	// Whether it is a waiter's turn on a free name, and whether the name is kept for another waiter.
	"turn": "(l.id = '' AND pg_catalog.substr(l.waiters, 1, 8) = ?)",
	"kept": "coalesce(l.id = '' AND NOT ({{free:c.now}} OR {{turn:?}}), false)",
	// Whether a waiter is in the queue, and the queue without the waiter.
	"queued":  `(pg_catalog."position"(l.waiters, ?) % {{waiter_bytes}} = 1)`,
	"without": `pg_catalog.substr(l.waiters, 1, pg_catalog."position"(l.waiters, ?) - 1) || pg_catalog.substr(l.waiters, pg_catalog."position"(l.waiters, ?) + {{waiter_bytes}})`,
	// The queue after a claim acquires the name: without the claim, or without the first waiter, which has missed its
	// turn.
	"served": `CASE WHEN l.waiters = '' THEN l.waiters ELSE
		pg_catalog.substr(CASE WHEN {{queued:?}} THEN {{without:?}} ELSE l.waiters END, CASE WHEN l.id = '' AND pg_catalog.substr(l.waiters, 1, 8) <> ? THEN {{waiter_bytes}} + 1 ELSE 1 END) END`,
	// The end of the reservation for the first waiter, when a name becomes free.
	"reserved": "CASE WHEN l.waiters <> '' THEN ? + {{grace}} END",
	// Wakes the first waiter, and sends others, including the last, the time at which their turn comes if all waiters before them
	// hang, in the form of dialect.Wakeups.Message. A waiter that polls has no channel.
	"notified": `CASE WHEN l.waiters <> '' THEN (
		SELECT pg_catalog.count(pg_catalog.pg_notify('leasing_' || pg_catalog.encode(w.channel, 'hex'), pg_catalog.encode(w.id, 'hex') || ' ' || w.after) IS NULL) FROM (
			SELECT pg_catalog.substr(l.waiters, r.n * {{waiter_bytes}} + 1, 8) AS id, pg_catalog.substr(l.waiters, r.n * {{waiter_bytes}} + 9, 8) AS channel, (r.n * {{grace_ms}})::text AS after
			FROM (VALUES (0), (1), (2), (3), (5), (9), (17), (33), (pg_catalog.length(l.waiters) / {{waiter_bytes}} - 1)) AS r(n)
			WHERE r.n * {{waiter_bytes}} < pg_catalog.length(l.waiters)
		) AS w WHERE w.channel <> pg_catalog.decode('0000000000000000', 'hex')
	) ELSE 0 END`,
	// The items of a batch with these columns. Without the bound of n the planner would expect 100 items,
	// and read the whole table for them while it is small.
	"request": `request AS MATERIALIZED (
	SELECT r.* FROM pg_catalog.jsonb_to_recordset($1::text::jsonb) AS r(n int, name text COLLATE "C", ?) WHERE r.n BETWEEN 0 AND {{most}}
)`,
	// A reading of the clock: the time, and its microseconds.
	"instant": `(SELECT s.now, {{micros:s.now}} AS us FROM (SELECT {{now}} AS now ? OFFSET 0) AS s OFFSET 0)`,
	// A reading after the rows are locked.
	"clock": "c AS MATERIALIZED (SELECT * FROM {{instant:FROM (SELECT pg_catalog.count(*) FROM locked) AS l}} AS c)",
	// The memory of ended IDs after the hash of a new entry, as in dialect.EncodeEnded: the rest of that entry, and the older
	// entries.
	"ended": `pg_catalog.substr(pg_catalog.int8send(?), 4) || pg_catalog.substr(l.ended, 1, {{ended_bytes}} * CASE
		WHEN pg_catalog.length(l.ended) < {{ended_least}} * {{ended_bytes}}
			OR pg_catalog.substr(l.ended, pg_catalog.length(l.ended) - {{ended_dropped}} * {{ended_bytes}} + 10, 4) >= pg_catalog.substr(pg_catalog.int8send(? - {{ended_for}}), 5) THEN {{ended_most}} - 1
		ELSE greatest({{ended_least}} - 1, pg_catalog.length(l.ended) / {{ended_bytes}} - {{ended_dropped}}) END)`,
}
