package sqllease

import "strings"

// sqliteSQL is the statements for one table. Names are quoted by newNaming's
// rule: they hold letters, digits and underscores only.
type sqliteSQL struct {
	read, write, renew, list, history, note string
	page, forget, sweepHistory              string
	exists, version                         string
	create                                  []string
}

const sqliteRow = `version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, boot, boot_us, breaking, ended`

func newSqliteSQL(table string) sqliteSQL {
	fill := strings.NewReplacer(
		"{{lease}}", `"`+table+`"`,
		"{{history}}", `"`+table+historySuffix+`"`,
		"{{history_index}}", `"`+table+historySuffix+`_by_name"`,
		"{{schema}}", `"`+table+schemaSuffix+`"`,
		"{{row}}", sqliteRow,
	).Replace
	s := sqliteSQL{
		read: fill(`SELECT {{row}} FROM {{lease}} WHERE name = ?1`),
		write: fill(`INSERT INTO {{lease}} (name, {{row}}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (name) DO UPDATE SET (version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, boot, boot_us, breaking, ended) =
(?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)`),
		// ?1: a JSON array of [name, id, token, ttl_us]; ?2 and ?3: the wall
		// clock and the boot clock in microseconds, ?5 and ?6: the same rounded
		// up, to count deadlines from; ?4: the boot.
		renew: fill(`UPDATE {{lease}} AS l SET
	ttl_us = r.value ->> 3,
	expires_us = ?5 + (r.value ->> 3),
	boot = ?4,
	boot_us = coalesce(?6 + (r.value ->> 3), 0),
	version = max(version + 1, ?2)
FROM json_each(?1) AS r
WHERE l.name = r.value ->> 0 AND l.id = r.value ->> 1 AND l.token = r.value ->> 2 AND NOT l.breaking
	AND (l.expires_us IS NULL OR CASE WHEN l.boot <> '' AND l.boot = ?4 THEN l.boot_us > ?3 ELSE l.expires_us > ?2 END)
RETURNING name`),
		list: fill(`SELECT name, {{row}} FROM {{lease}}
WHERE name >= ?1 AND name > ?2 AND (?3 IS NULL OR name < ?3) AND token > 0
	AND (NOT ?4 OR id <> '' AND (expires_us IS NULL OR CASE WHEN boot <> '' AND boot = ?7 THEN boot_us > ?6 ELSE expires_us > ?5 END))
ORDER BY name LIMIT ?8`),
		history: fill(`SELECT seq, at_us, kind, id, owner, token FROM {{history}} WHERE name = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3`),
		note:    fill(`INSERT INTO {{history}} (name, at_us, kind, id, owner, token) VALUES (?1, ?2, ?3, ?4, ?5, ?6)`),
		page:    fill(`SELECT name, {{row}} FROM {{lease}} WHERE name > ?1 ORDER BY name LIMIT ?2`),
		forget:  fill(`DELETE FROM {{lease}} WHERE name = ?1`),
		sweepHistory: fill(`DELETE FROM {{history}} WHERE at_us < ?2 AND seq IN (SELECT seq FROM {{history}} ORDER BY seq LIMIT ?1)
RETURNING 1`),
		exists:  `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1`,
		version: fill(`SELECT coalesce(max(version), 0) FROM {{schema}}`),
	}
	for _, statement := range strings.Split(sqliteSchema, ";\n") {
		s.create = append(s.create, fill(strings.TrimSpace(statement)))
	}
	return s
}

const sqliteSchema = `CREATE TABLE {{lease}} (
	name        TEXT PRIMARY KEY NOT NULL COLLATE BINARY,
	version     INTEGER NOT NULL,
	token       INTEGER NOT NULL,
	id          TEXT NOT NULL,
	owner       TEXT NOT NULL,
	ttl_us      INTEGER,
	metadata    TEXT NOT NULL,
	acquired_us INTEGER,
	expires_us  INTEGER,
	boot        TEXT NOT NULL,
	boot_us     INTEGER NOT NULL,
	breaking    INTEGER NOT NULL,
	ended       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE {{history}} (
	seq   INTEGER PRIMARY KEY AUTOINCREMENT,
	name  TEXT NOT NULL COLLATE BINARY,
	at_us INTEGER NOT NULL,
	kind  TEXT NOT NULL,
	id    TEXT NOT NULL,
	owner TEXT NOT NULL,
	token INTEGER NOT NULL
) STRICT;
CREATE INDEX {{history_index}} ON {{history}} (name, seq);
CREATE TABLE {{schema}} (
	version    INTEGER PRIMARY KEY NOT NULL,
	applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;
INSERT INTO {{schema}} (version) VALUES (1)`
