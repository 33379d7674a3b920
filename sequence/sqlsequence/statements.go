package sqlsequence

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// dialect holds the differences between PostgreSQL and SQLite. All other SQL is shared.
type dialect struct {
	now      string // the database's clock in microseconds, read where the statement uses it
	max, min string // of two values
	param    string // the prefix of a parameter's number: to SQLite, $1 would be a name
	lite     bool   // SQLite
	lock     string // locks a stream's row; returns next_seq, sealed_through, recovery_until_us, now
	// bound returns a condition that is always true, and makes the server end the transaction if the process leaves it
	// idle for ms milliseconds; nil if the database has no such limit.
	bound func(ms string) string
	skip  string // ends a sub-select that skips rows locked by others
	lease string // issues a number
	// leaseIfFree issues a number unless the counter is locked: a transaction that has an entry locked must not wait for the
	// counter.
	leaseIfFree string
	// andLease combines a commit and leaseIfFree in one statement; nil if two statements are
	// needed.
	andLease func(commit string) string
	leases   string            // issues many numbers in one statement; "" where single statements share a transaction
	tables   string            // returns the names of the tables, without their prefix
	types    *strings.Replacer // replaces the words for column types in CREATE TABLE
	create   []string
	audit    []string
	// steps bring tables up to date: the first step from version 1 to version 2, and so on. Release 0.1.0 has version 1. A step
	// must keep the tables usable for running programs of the previous version. For example, a new column needs a default.
	steps [][]string
}

// version returns the version of the tables that this code reads and writes.
func (d dialect) version() int { return 1 + len(d.steps) }

// A caller's write may take the remaining time of its lease or claim, or shortestWrite if that is longer. A fill
// may take longestFill.
const (
	shortestWrite = 3 * time.Second
	longestFill   = 10 * time.Second
)

const (
	open      = `state IN ('leased', 'recovering')`
	columns   = `stream, seq, op_id, kind, owner, state, token, leased_us, expires_us, closed_us, filled_us, renewals, claim_id, claim_owner, claim_until_us, attempts, not_before_us, last_error, coalesce(origin_seq, 0), replaced_by, reason, payload, work_phase, work_data, uncleaned, {{now}}`
	issued    = `seq, leased_us, expires_us`                                     // the columns of an issued number that are not in its request
	committed = `op_id, kind, owner, leased_us, expires_us, closed_us, renewals` // the columns of a committed number that are not in its request; a number committed in time has no claim
	claimable = `state IN ('leased', 'recovering') AND not_before_us <= {{now}} AND (state = 'leased' AND expires_us <= {{now}} OR state = 'recovering' AND claim_until_us <= {{now}})`
	holds     = `stream = $1 AND seq = $2 AND token = $3 AND state = 'leased'`
	// grant is the latest time at which the end of an open number's lease, claim or pause was set. If it is ahead of the
	// clock, the clock has gone back.
	grant  = `{{max}}(leased_us, granted_us)`
	claims = `stream = $1 AND seq = $2 AND token = $3 AND state = 'recovering' AND claim_until_us > {{now}}`
)

// granted returns the SQL of the duration that is granted at the time now: see seqstore.Granted. s is the
// stream's row.
func granted(asked, now string) string {
	return fmt.Sprintf("CASE WHEN s.recovery_until_us > %[2]s THEN {{max}}(%[1]s, {{min}}(2 * %[1]s, {{cap}})) ELSE %[1]s END", asked, now)
}

// statements holds the SQL text of a store, with the names of its tables.
type statements struct {
	lock, lease, leaseIfFree, leases     string
	lockForClaim, lockForFill            string // lock, and bound the transaction
	commitBounded, commitInOrderBounded  string // commit, and bound the transaction
	again, find, get                     string
	renew, save, commit, commitInOrder   string
	commitAndLease                       string // "" where that takes two statements
	commitInOrderAndLease                string
	release, claim, candidate, await     string
	rebase, expire                       string
	extend, releaseClaim                 string
	gap, failed                          string
	recovered, allocate                  string
	insert, fill, sealGaps, seal, forget string
	through, place, entries, selected    string
	status, lowest, cleaned              string
	createStream, recovery, newEpoch     string
	enqueue, manual, resolveManual       string
	findManual                           string
	version, tables, events              string
	create, audit                        []string
	steps                                [][]string // see dialect
}

func newStatements(d dialect, schema, prefix string) *statements {
	table := func(name string) string {
		quoted := `"` + prefix + name + `"`
		if schema != "" {
			quoted = `"` + schema + `".` + quoted
		}
		return quoted
	}
	names := strings.NewReplacer(
		"{{now}}", d.now, "{{max}}", d.max, "{{min}}", d.min, "{{cap}}", fmt.Sprint(seqstore.MaxRecoveryDuration.Microseconds()), "$", d.param,
		"{{stream}}", table("stream"), "{{entry}}", table("entry"), "{{manual}}", table("manual"), "{{event}}", table("event"), "{{audit}}", table("audit"), "{{versions}}", table("version"),
		"{{namespace}}", `"`+schema+`"`, "{{prefix}}", prefix, "{{version}}", fmt.Sprint(d.version()),
	)
	fill := func(text string) string {
		text = strings.NewReplacer("{{columns}}", columns, "{{issued}}", issued, "{{committed}}", committed, "{{open}}", open, "{{claimable}}", claimable, "{{grant}}", grant, "{{holds}}", holds, "{{claims}}", claims).Replace(text)
		return names.Replace(text)
	}
	grantedNow := func(asked string) string {
		return "(SELECT " + granted("CAST("+asked+" AS BIGINT)", "{{now}}") + " FROM {{stream}} s WHERE s.stream = $1)"
	}
	bounded := func(us string) string {
		if d.bound == nil {
			return ""
		}
		return " AND " + d.bound(fmt.Sprintf("least(%d, greatest(%d, (%s) / 1000))", math.MaxInt32, shortestWrite.Milliseconds(), us))
	}
	commit := func(also string) string {
		return `UPDATE {{entry}} SET state = 'committed', closed_us = {{now}}, payload = $4, work_phase = '', work_data = NULL
WHERE {{holds}} AND expires_us > {{now}}` + also + ` RETURNING {{committed}}`
	}
	const inOrder = ` AND NOT EXISTS (SELECT 1 FROM {{entry}} l WHERE l.stream = $1 AND l.seq < $2 AND l.{{open}})`
	locking := func(us string) string {
		return strings.Replace(d.lock, "WHERE stream = $1", "WHERE stream = $1"+bounded(us), 1)
	}
	// rebased is for a clock that has gone back: an end that was set while the clock was ahead moves, so that the lease, claim or
	// pause lasts for its whole duration from now on.
	rebased := func(us string) string {
		return "CASE WHEN " + us + " > 0 THEN {{now}} + " + us + " - {{grant}} ELSE 0 END"
	}
	ownEnd := "CASE WHEN {{grant}} > {{now}} THEN {{now}} + expires_us - {{grant}} ELSE expires_us END"
	s := &statements{
		lock:                 fill(d.lock),
		lockForClaim:         fill(locking("(SELECT c.claim_until_us FROM {{entry}} c WHERE c.stream = $1 AND c.seq = $2) - {{now}}")),
		lockForFill:          fill(locking(fmt.Sprint(longestFill.Microseconds()))),
		commitBounded:        fill(commit(bounded("expires_us - {{now}}"))),
		commitInOrderBounded: fill(commit(inOrder + bounded("expires_us - {{now}}"))),
		lease:                fill(d.lease), leaseIfFree: fill(d.leaseIfFree), leases: fill(d.leases),
		again: fill(`UPDATE {{entry}} SET expires_us = {{max}}(` + ownEnd + `, {{now}} + ` + grantedNow("$3") + `), leased_us = {{min}}(leased_us, {{now}}), granted_us = {{now}}
WHERE stream = $1 AND op_id = $2 AND origin_seq IS NULL AND state = 'leased' AND expires_us > {{now}} RETURNING {{columns}}`),
		find: fill(`SELECT {{columns}} FROM {{entry}} WHERE stream = $1 AND op_id = $2 AND origin_seq IS NULL`),
		get:  fill(`SELECT {{columns}} FROM {{entry}} WHERE stream = $1 AND seq = $2`),
		renew: fill(`UPDATE {{entry}} SET expires_us = {{max}}(` + ownEnd + `, {{now}} + ` + grantedNow("$4") + `), leased_us = {{min}}(leased_us, {{now}}), granted_us = {{now}}, renewals = renewals + 1
WHERE {{holds}} AND expires_us > {{now}} RETURNING (SELECT s.recovery_until_us > {{now}} FROM {{stream}} s WHERE s.stream = $1)`),
		// Completed work ends the claim of a cleaner that has not seen the work.
		save: fill(`UPDATE {{entry}} SET work_phase = $4, work_data = $5, claim_until_us = CASE WHEN $4 = 'completed' THEN 0 ELSE claim_until_us END
WHERE stream = $1 AND seq = $2 AND {{open}} AND work_phase <> 'completed' AND token >= $3 AND ($4 = 'completed' OR state = 'leased' AND token = $3) RETURNING seq`),
		commit:        fill(commit("")),
		commitInOrder: fill(commit(inOrder)),
		// If completed work is saved, the lease ends instead, and a cleaner commits the work.
		release: fill(`UPDATE {{entry}} SET state = CASE WHEN work_phase = 'completed' THEN state ELSE 'gap' END,
	closed_us = CASE WHEN work_phase = 'completed' THEN closed_us ELSE {{now}} END, reason = CASE WHEN work_phase = 'completed' THEN reason ELSE 'released' END,
	expires_us = CASE WHEN work_phase = 'completed' THEN {{min}}(expires_us, {{now}}) ELSE expires_us END
WHERE {{holds}} RETURNING seq`),
		// The predicate is repeated outside of the sub-select: after a wait for the row PostgreSQL
		// checks only the outer predicate.
		claim: fill(`UPDATE {{entry}} SET state = 'recovering', token = token + 1, claim_owner = $2, claim_until_us = {{now}} + $3, claim_id = $5, granted_us = {{now}}
WHERE stream = $1 AND seq = $4 AND seq = (SELECT min(c.seq) FROM {{entry}} c WHERE c.stream = $1 AND c.` + claimable + `) AND {{claimable}}
	AND NOT EXISTS (SELECT 1 FROM {{entry}} l WHERE l.stream = $1 AND l.seq < {{entry}}.seq AND l.{{open}} AND l.state = 'recovering' AND l.claim_until_us > {{now}})
RETURNING {{columns}}`),
		candidate: fill(`SELECT coalesce((SELECT min(c.seq) FROM {{entry}} c WHERE c.stream = $1 AND c.` + claimable + `
	AND NOT EXISTS (SELECT 1 FROM {{entry}} l WHERE l.stream = $1 AND l.seq < c.seq AND l.{{open}} AND l.state = 'recovering' AND l.claim_until_us > {{now}})), 0),
	EXISTS (SELECT 1 FROM {{entry}} WHERE stream = $1 AND {{open}} AND {{grant}} > {{now}})
FROM {{stream}} WHERE stream = $1`),
		rebase: fill(`UPDATE {{entry}} SET expires_us = CASE WHEN state = 'leased' THEN ` + rebased("expires_us") + ` ELSE expires_us END,
	claim_until_us = ` + rebased("claim_until_us") + `, not_before_us = ` + rebased("not_before_us") + `, leased_us = {{min}}(leased_us, {{now}}), granted_us = {{now}}
WHERE stream = $1 AND seq IN (SELECT seq FROM {{entry}} WHERE stream = $1 AND {{open}} AND {{grant}} > {{now}}` + d.skip + `) AND {{open}} AND {{grant}} > {{now}} RETURNING seq`),
		expire: fill(`UPDATE {{entry}} SET expires_us = {{min}}(expires_us, {{now}}), claim_until_us = {{min}}(claim_until_us, {{now}}), not_before_us = {{min}}(not_before_us, {{now}})
WHERE stream = $1 AND seq = $2 AND {{open}} RETURNING seq`),
		await:  fill(`SELECT 1 FROM {{entry}} WHERE stream = $1 AND seq = $2 FOR UPDATE`),
		extend: fill(`UPDATE {{entry}} SET claim_until_us = {{now}} + $4, granted_us = {{now}} WHERE {{claims}} RETURNING seq`),
		releaseClaim: fill(`UPDATE {{entry}} SET claim_until_us = {{now}}
WHERE stream = $1 AND {{open}} AND state = 'recovering' AND claim_id = $2 AND claim_until_us > {{now}} RETURNING seq`),
		gap: fill(`UPDATE {{entry}} SET state = 'gap', closed_us = {{now}}, reason = $4, uncleaned = $5
WHERE {{claims}} RETURNING {{columns}}`),
		failed: fill(`UPDATE {{entry}} SET attempts = attempts + 1, last_error = $4, claim_until_us = {{now}}, not_before_us = {{now}} + $5, granted_us = {{now}},
	state = CASE WHEN attempts + 1 >= $6 THEN 'gap' ELSE state END, closed_us = CASE WHEN attempts + 1 >= $6 THEN {{now}} ELSE 0 END,
	reason = CASE WHEN attempts + 1 >= $6 THEN 'recovery_failed' ELSE '' END, uncleaned = (attempts + 1 >= $6 AND $7)
WHERE {{claims}} RETURNING {{columns}}`),
		recovered: fill(`UPDATE {{entry}} SET state = 'recovered', closed_us = {{now}}, replaced_by = $4, uncleaned = $5, work_phase = '', work_data = NULL
WHERE {{claims}} RETURNING {{columns}}`),
		allocate: fill(`UPDATE {{stream}} SET next_seq = $2 + 1 WHERE stream = $1 AND next_seq = $2 RETURNING next_seq`),
		insert: fill(`INSERT INTO {{entry}} (stream, seq, op_id, kind, owner, state, token, leased_us, expires_us, closed_us, origin_seq, payload)
VALUES ($1, $2, $3, $4, $5, 'committed', 1, {{now}}, {{now}}, {{now}}, $6, $7) RETURNING {{columns}}`),
		fill: fill(`UPDATE {{entry}} SET state = 'filled', filled_us = {{now}}, payload = $5, work_phase = '', work_data = NULL
WHERE stream = $1 AND seq = $2 AND op_id = $3 AND state = 'gap' AND seq > $4 RETURNING {{columns}}`),
		sealGaps: fill(`UPDATE {{entry}} SET state = 'sealed' WHERE stream = $1 AND state = 'gap' AND seq <= $2 RETURNING seq`),
		seal:     fill(`UPDATE {{stream}} SET sealed_through = $2 WHERE stream = $1 RETURNING next_seq`),
		forget: fill(`DELETE FROM {{entry}} WHERE stream = $1 AND seq IN (
	SELECT e.seq FROM {{entry}} e, {{stream}} s WHERE s.stream = $1 AND e.stream = $1 AND e.seq <= $2 AND e.seq <= s.sealed_through AND NOT e.uncleaned ORDER BY e.seq LIMIT $3) RETURNING seq`),
		through: fill(`SELECT sealed_through, coalesce((SELECT min(l.seq) FROM {{entry}} l WHERE l.stream = $1 AND l.{{open}}) - 1, next_seq - 1) FROM {{stream}} WHERE stream = $1`),
		place: fill(`SELECT s.sealed_through, coalesce((SELECT min(l.seq) FROM {{entry}} l WHERE l.stream = $1 AND l.{{open}}) - 1, s.next_seq - 1), s.next_seq - 1, s.epoch,
	coalesce(b.op_id, ''), coalesce(b.origin_seq, 0), coalesce(b.leased_us, 0), coalesce(b.closed_us, 0)
FROM {{stream}} s LEFT JOIN {{entry}} b ON b.stream = s.stream AND b.seq = $2 WHERE s.stream = $1`),
		// Sub-selects hide the bounds from PostgreSQL's planner: if it sees that they select few of a million
		// rows, it makes a new plan for every page, which takes longer than reading the page.
		entries: fill(`SELECT {{columns}} FROM {{entry}} WHERE stream = $1 AND seq >= (SELECT CAST($2 AS BIGINT)) AND seq <= (SELECT CAST($3 AS BIGINT))
ORDER BY seq LIMIT (SELECT CAST($4 AS BIGINT))`),
		selected: fill(`SELECT {{columns}} FROM {{entry}} WHERE stream = $1 AND seq >= $2 AND {{condition}} ORDER BY seq LIMIT $3`),
		status: fill(`SELECT {{now}}, next_seq - 1, sealed_through, recovery_until_us,
	(SELECT count(*) FROM {{entry}} o WHERE o.stream = $1 AND o.{{open}}),
	(SELECT count(*) FROM {{entry}} x WHERE x.stream = $1 AND x.{{open}} AND x.state = 'leased' AND x.expires_us <= {{now}}),
	(SELECT count(*) FROM {{entry}} WHERE stream = $1 AND {{open}} AND ({{claimable}} OR {{grant}} > {{now}})),
	(SELECT count(*) FROM {{entry}} g WHERE g.stream = $1 AND g.state = 'gap'),
	coalesce((SELECT min(l.seq) FROM {{entry}} l WHERE l.stream = $1 AND l.{{open}}), next_seq) - 1
FROM {{stream}} WHERE stream = $1`),
		lowest:       fill(`SELECT coalesce((SELECT min(l.seq) FROM {{entry}} l WHERE l.stream = $1 AND l.{{open}}), 0) FROM {{stream}} WHERE stream = $1`),
		cleaned:      fill(`UPDATE {{entry}} SET uncleaned = false WHERE stream = $1 AND seq = $2 AND uncleaned RETURNING seq`),
		createStream: fill(`INSERT INTO {{stream}} (stream) VALUES ($1) ON CONFLICT DO NOTHING RETURNING next_seq`),
		recovery:     fill(`UPDATE {{stream}} SET recovery_until_us = CASE WHEN CAST($2 AS BIGINT) < 0 THEN 0 ELSE {{max}}(recovery_until_us, {{now}} + CAST($2 AS BIGINT)) END WHERE stream = $1 RETURNING next_seq`),
		newEpoch:     fill(`UPDATE {{stream}} SET epoch = $2 WHERE stream = $1 RETURNING next_seq`),
		enqueue: fill(`INSERT INTO {{manual}} (stream, seq, op_id, digest, payload, reason, created_us) VALUES ($1, $2, $3, $4, $5, $6, {{now}})
ON CONFLICT DO NOTHING RETURNING id`),
		manual:     fill(`SELECT id, stream, seq, op_id, payload, reason, created_us FROM {{manual}} WHERE stream = $1 AND resolved_us = 0 ORDER BY id LIMIT $2`),
		findManual: fill(`SELECT id, stream, seq, op_id, payload, reason, created_us, resolved_us, resolved_by FROM {{manual}} WHERE id = $1`),
		resolveManual: fill(`UPDATE {{manual}} SET resolved_by = CASE WHEN resolved_us = 0 THEN $2 ELSE resolved_by END,
	resolved_us = CASE WHEN resolved_us = 0 THEN {{now}} ELSE resolved_us END WHERE id = $1 RETURNING id`),
		events:  fill(`SELECT at_us, seq, event, who, token FROM {{event}} WHERE stream = $1 AND seq >= $2 AND seq <= $3 ORDER BY seq, id`),
		version: fill(`SELECT coalesce(max(version), 0) FROM {{versions}}`),
		tables:  fill(d.tables),
	}
	if d.andLease != nil {
		s.commitAndLease, s.commitInOrderAndLease = fill(d.andLease(s.commit)), fill(d.andLease(s.commitInOrder))
	}
	for _, text := range d.create {
		s.create = append(s.create, fill(d.types.Replace(text)))
	}
	for i, step := range d.steps {
		var filled []string
		for _, text := range append(slices.Clip(step), fmt.Sprintf("INSERT INTO {{versions}} (version) VALUES (%d)", i+2)) {
			filled = append(filled, fill(d.types.Replace(text)))
		}
		s.steps = append(s.steps, filled)
	}
	for _, text := range d.audit {
		s.audit = append(s.audit, fill(d.types.Replace(text)))
	}
	return s
}

// inStates returns the condition for entries in some states. Literals let the planner use a partial
// index; for one state SQLite needs exactly the text of the index.
func inStates(states []seqstore.State) (string, error) {
	var quoted []string
	for _, state := range states {
		switch state {
		case seqstore.Leased, seqstore.Recovering, seqstore.Committed, seqstore.Recovered, seqstore.Gap, seqstore.Filled, seqstore.Sealed:
			quoted = append(quoted, "'"+string(state)+"'")
		default:
			return "", fmt.Errorf("sequence: read: unknown state %q", state)
		}
	}
	if len(quoted) == 1 {
		return "state = " + quoted[0], nil
	}
	return "state IN (" + strings.Join(quoted, ", ") + ")", nil
}

var postgresDialect = dialect{
	now: `CAST(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000 AS BIGINT)`,
	max: "greatest", min: "least", param: "$", bound: postgresBound, skip: " FOR UPDATE SKIP LOCKED",
	lock:        `SELECT next_seq, sealed_through, recovery_until_us, {{now}} FROM {{stream}} WHERE stream = $1 FOR UPDATE`,
	lease:       "WITH " + postgresLease("", 2) + " SELECT {{issued}} FROM leased",
	leaseIfFree: "WITH " + postgresLease(fmt.Sprintf(postgresFree, ""), 2) + " SELECT {{issued}} FROM leased",
	andLease: func(commit string) string {
		return "WITH done AS (" + commit + "), " + postgresLease(fmt.Sprintf(postgresFree, " AND EXISTS (SELECT 1 FROM done)"), 5) +
			" SELECT done.*, coalesce(l.seq, 0), coalesce(l.leased_us, 0), coalesce(l.expires_us, 0) FROM done LEFT JOIN leased l ON true"
	},
	leases: `WITH s AS (UPDATE {{stream}} SET next_seq = next_seq + CAST($3 AS BIGINT) WHERE stream = $1 RETURNING next_seq - CAST($3 AS BIGINT) AS first, recovery_until_us)
INSERT INTO {{entry}} (stream, seq, op_id, kind, owner, state, token, leased_us, expires_us)
SELECT CAST($1 AS TEXT), s.first + o.n, o.op, o.kind, o.owner, 'leased', 1, t.now, t.now +
	` + granted("o.us", "t.now") + `
FROM s CROSS JOIN LATERAL (SELECT {{now}} + 0 * s.first AS now) t
CROSS JOIN pg_catalog.json_to_recordset(CAST($2 AS JSON)) AS o(n BIGINT, op TEXT, kind TEXT, owner TEXT, us BIGINT) RETURNING {{issued}}`,
	tables: `SELECT substr(c.relname, CAST($2 AS INTEGER) + 1) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE starts_with(c.relname, CAST($1 AS TEXT)) AND n.nspname = CAST($3 AS TEXT)`,
	types:  strings.NewReplacer("TEXT", `TEXT COLLATE "C"`, "NUMBER", "BIGINT", "BLOB", "BYTEA", "FLAG", "BOOLEAN", "ID_KEY", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", " STRICT", ""),
	create: append([]string{"CREATE SCHEMA {{namespace}}"}, createTables...),
	audit: []string{
		eventTable, eventIndex,
		// OLD is NULL when a row is inserted.
		`CREATE FUNCTION {{audit}}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF TG_OP = 'DELETE' THEN
		DELETE FROM {{event}} WHERE stream = OLD.stream AND seq = OLD.seq;
	ELSE
		INSERT INTO {{event}} (at_us, stream, seq, event, who, token) VALUES ({{now}}, NEW.stream, NEW.seq, ` + eventName + `, ` + eventWho + `, NEW.token);
	END IF;
	RETURN NULL;
END $$`,
		`CREATE TRIGGER "{{prefix}}audit_rows" AFTER INSERT OR DELETE ON {{entry}} FOR EACH ROW EXECUTE FUNCTION {{audit}}()`,
		`CREATE TRIGGER "{{prefix}}audit_change" AFTER UPDATE ON {{entry}} FOR EACH ROW WHEN (` + eventful + `) EXECUTE FUNCTION {{audit}}()`,
	},
}

// postgresStep bounds the transactions whose statements are all ours: a process that is paused between two statements
// holds their locks no longer than this limit.
const postgresStep = "SET LOCAL idle_in_transaction_session_timeout = 2000"

// postgresBound returns the condition that bounds a transaction in which the caller's write runs. It is a part of the
// statement that locks the rows. The server ends an idle session, a statement that waits for others, a query whose result the
// client does not read (Linux also gives up if the client's window stays at zero), and from version 17 on the whole transaction.
// Shorter limits of the application are kept. See https://www.postgresql.org/docs/current/runtime-config-client.html.
func postgresBound(ms string) string {
	set := func(name, current string) string {
		return fmt.Sprintf("pg_catalog.set_config('%[1]s', CAST(least(%[2]s, coalesce(nullif(%[3]s, 0), %[2]s)) AS TEXT), true)", name, ms, current)
	}
	current := func(name string) string {
		return "CAST(extract(epoch FROM CAST(pg_catalog.current_setting('" + name + "') AS INTERVAL)) * 1000 AS BIGINT)"
	}
	return "pg_catalog.concat(" + strings.Join([]string{
		set("idle_in_transaction_session_timeout", current("idle_in_transaction_session_timeout")),
		set("statement_timeout", current("statement_timeout")),
		"CASE WHEN pg_catalog.version() LIKE '%linux%' THEN " + set("tcp_user_timeout", "CAST(pg_catalog.current_setting('tcp_user_timeout') AS BIGINT)") + " END",
		"CASE WHEN CAST(pg_catalog.current_setting('server_version_num') AS INTEGER) >= 170000 THEN " + set("transaction_timeout", current("transaction_timeout")) + " END",
	}, ", ") + ") IS NOT NULL"
}

const postgresFree = ` AND EXISTS (SELECT 1 FROM {{stream}} WHERE stream = $1%s FOR UPDATE SKIP LOCKED)`

// postgresLease issues a number, if a condition holds, in one statement: the counter's row is locked until the server has committed, and
// not for a round trip. The clock is read while the lock is held, since t depends on s. The operation is parameter n; duration, kind and
// owner follow.
func postgresLease(condition string, n int) string {
	return fmt.Sprintf(`s AS (UPDATE {{stream}} SET next_seq = next_seq + 1 WHERE stream = $1%s RETURNING next_seq - 1 AS seq, recovery_until_us),
leased AS (INSERT INTO {{entry}} (stream, seq, op_id, kind, owner, state, token, leased_us, expires_us)
SELECT CAST($1 AS TEXT), s.seq, CAST($%d AS TEXT), CAST($%d AS TEXT), CAST($%d AS TEXT), 'leased', 1, t.now, t.now +
	%s
FROM s CROSS JOIN LATERAL (SELECT {{now}} + 0 * s.seq AS now) t RETURNING {{issued}})`, condition, n, n+2, n+3, granted(fmt.Sprintf("CAST($%d AS BIGINT)", n+1), "t.now"))
}

// sqliteLease issues a number. A trigger advances the counter.
var sqliteLease = `INSERT INTO {{entry}} (stream, seq, op_id, kind, owner, state, token, leased_us, expires_us)
SELECT $1, s.next_seq, $2, $4, $5, 'leased', 1, {{now}}, {{now}} + ` + granted("$3", "{{now}}") + `
FROM {{stream}} s WHERE s.stream = $1 ON CONFLICT DO NOTHING RETURNING {{issued}}`

var sqliteDialect = dialect{
	now: `(CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000)`,
	max: "max", min: "min", param: "?", lite: true,
	// A transaction that begins with a write waits for the lock of the file at its start, and not
	// in its middle.
	lock:  `UPDATE {{stream}} SET next_seq = next_seq WHERE stream = $1 RETURNING next_seq, sealed_through, recovery_until_us, {{now}}`,
	lease: sqliteLease, leaseIfFree: sqliteLease,
	tables: `SELECT lower(substr(name, $2 + 1)) FROM sqlite_schema WHERE type IN ('table', 'view') AND lower(substr(name, 1, $2)) = $1`,
	types:  strings.NewReplacer("NUMBER", "INTEGER", "FLAG", "INTEGER", "ID_KEY", "INTEGER PRIMARY KEY AUTOINCREMENT"),
	create: append(slices.Clip(createTables),
		// With this trigger a number is issued in one statement, which is its own transaction.
		`CREATE TRIGGER "{{prefix}}count" AFTER INSERT ON {{entry}} WHEN NEW.state = 'leased' BEGIN UPDATE {{stream}} SET next_seq = NEW.seq + 1 WHERE stream = NEW.stream; END`),
	audit: []string{
		eventTable, eventIndex,
		`CREATE TRIGGER "{{prefix}}audit_insert" AFTER INSERT ON {{entry}} BEGIN
	INSERT INTO {{event}} (at_us, stream, seq, event, who, token) VALUES ({{now}}, NEW.stream, NEW.seq, NEW.state, NEW.owner, NEW.token); END`,
		`CREATE TRIGGER "{{prefix}}audit_change" AFTER UPDATE ON {{entry}} WHEN ` + eventful + ` BEGIN
	INSERT INTO {{event}} (at_us, stream, seq, event, who, token) VALUES ({{now}}, NEW.stream, NEW.seq, ` + eventName + `, ` + eventWho + `, NEW.token); END`,
		`CREATE TRIGGER "{{prefix}}audit_delete" AFTER DELETE ON {{entry}} BEGIN DELETE FROM {{event}} WHERE stream = OLD.stream AND seq = OLD.seq; END`,
	},
}

// The shared parts of the audit's triggers.
const (
	eventful   = `OLD.state <> NEW.state OR OLD.token <> NEW.token OR OLD.attempts <> NEW.attempts`
	eventName  = `CASE WHEN OLD.state = NEW.state AND OLD.token = NEW.token THEN 'failed' ELSE NEW.state END`
	eventWho   = `CASE WHEN NEW.state = 'sealed' THEN '' WHEN 'recovering' IN (OLD.state, NEW.state) THEN NEW.claim_owner ELSE NEW.owner END`
	eventIndex = `CREATE INDEX "{{prefix}}event_number" ON {{event}} (stream, seq, id)`
	eventTable = `CREATE TABLE {{event}} (
	id     ID_KEY,
	at_us  NUMBER NOT NULL,
	stream TEXT NOT NULL,
	seq    NUMBER NOT NULL,
	event  TEXT NOT NULL,
	who    TEXT NOT NULL,
	token  NUMBER NOT NULL
) STRICT`
)

// createTables makes the tables, and records their version. dialect.types defines the words for column
// types.
var createTables = []string{
	`CREATE TABLE {{stream}} (
	stream            TEXT PRIMARY KEY NOT NULL,
	next_seq          NUMBER NOT NULL DEFAULT 1,
	sealed_through    NUMBER NOT NULL DEFAULT 0,
	recovery_until_us NUMBER NOT NULL DEFAULT 0,
	epoch             TEXT NOT NULL DEFAULT ''
) STRICT`,
	`CREATE TABLE {{entry}} (
	stream         TEXT NOT NULL,
	seq            NUMBER NOT NULL,
	op_id          TEXT NOT NULL,
	kind           TEXT NOT NULL,
	owner          TEXT NOT NULL,
	state          TEXT NOT NULL,
	token          NUMBER NOT NULL,
	leased_us      NUMBER NOT NULL,
	expires_us     NUMBER NOT NULL,
	closed_us      NUMBER NOT NULL DEFAULT 0,
	filled_us      NUMBER NOT NULL DEFAULT 0,
	renewals       NUMBER NOT NULL DEFAULT 0,
	claim_id       TEXT NOT NULL DEFAULT '',
	claim_owner    TEXT NOT NULL DEFAULT '',
	claim_until_us NUMBER NOT NULL DEFAULT 0,
	attempts       NUMBER NOT NULL DEFAULT 0,
	not_before_us  NUMBER NOT NULL DEFAULT 0,
	last_error     TEXT NOT NULL DEFAULT '',
	origin_seq     NUMBER,
	replaced_by    NUMBER NOT NULL DEFAULT 0,
	reason         TEXT NOT NULL DEFAULT '',
	payload        BLOB,
	work_phase     TEXT NOT NULL DEFAULT '',
	work_data      BLOB,
	uncleaned      FLAG NOT NULL DEFAULT FALSE,
	granted_us     NUMBER NOT NULL DEFAULT 0,
	PRIMARY KEY (stream, seq)
) STRICT`,
	`CREATE TABLE {{manual}} (
	id          ID_KEY,
	stream      TEXT NOT NULL,
	seq         NUMBER NOT NULL,
	op_id       TEXT NOT NULL,
	digest      TEXT NOT NULL,
	payload     BLOB,
	reason      TEXT NOT NULL,
	created_us  NUMBER NOT NULL,
	resolved_us NUMBER NOT NULL DEFAULT 0,
	resolved_by TEXT NOT NULL DEFAULT '',
	UNIQUE (stream, seq, op_id, digest)
) STRICT`,
	`CREATE TABLE {{versions}} (version NUMBER PRIMARY KEY NOT NULL) STRICT`,
	`CREATE UNIQUE INDEX "{{prefix}}entry_op" ON {{entry}} (stream, op_id) WHERE origin_seq IS NULL`,
	`CREATE UNIQUE INDEX "{{prefix}}entry_origin" ON {{entry}} (stream, origin_seq) WHERE origin_seq IS NOT NULL`,
	`CREATE INDEX "{{prefix}}entry_open" ON {{entry}} (stream, seq) WHERE ` + open,
	`CREATE INDEX "{{prefix}}entry_gaps" ON {{entry}} (stream, seq) WHERE state = 'gap'`,
	`CREATE INDEX "{{prefix}}entry_uncleaned" ON {{entry}} (stream, seq) WHERE uncleaned`,
	`INSERT INTO {{versions}} (version) VALUES ({{version}})`,
}
