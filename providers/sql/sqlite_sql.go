package sqllease

import (
	"strconv"
	"strings"
)

// sqliteSQL is the statements for one table, whose name has letters, digits and
// underscores only.
type sqliteSQL struct {
	read, insert, update, list, note   string
	page, forget, trim, hand, moveHand string
}

// sqliteColumns are in the order of sqliteRow.columns. An expires_us of 0 is never.
const sqliteColumns = `version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, boot, boot_us, breaking, broken_by, break_reason, ended, waiters`

func newSqliteSQL(table string) (sqliteSQL, tables) {
	fill := strings.NewReplacer(
		"{{lease}}", `"`+table+`"`,
		"{{history}}", `"`+table+historySuffix+`"`,
		"{{history_index}}", `"`+table+historySuffix+`_by_name"`,
		"{{schema}}", `"`+table+schemaSuffix+`"`,
		"{{row}}", sqliteColumns,
		"{{version}}", strconv.Itoa(schemaVersion),
	).Replace
	s := sqliteSQL{
		read: fill(`SELECT {{row}} FROM {{lease}} WHERE name = ?1`),
		insert: fill(`INSERT INTO {{lease}} (name, {{row}}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
ON CONFLICT (name) DO NOTHING`), // an error if the table has lost its key
		update: fill(`UPDATE {{lease}} SET ({{row}}) = (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) WHERE name = ?1`),
		list: fill(`SELECT name, {{row}} FROM {{lease}}
WHERE name >= ?1 AND name > ?2 AND (?3 IS NULL OR name < ?3) AND token > 0
	AND (NOT ?4 OR id <> '' AND (expires_us = 0 OR CASE WHEN boot <> '' AND boot = ?7 THEN boot_us > ?6 ELSE expires_us > ?5 END))
ORDER BY name LIMIT ?8`),
		note:     fill(`INSERT INTO {{history}} (name, at_us, kind, id, owner, token, actor, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`),
		page:     fill(`SELECT name, {{row}} FROM {{lease}} WHERE name > ?1 ORDER BY name LIMIT ?2`),
		forget:   fill(`DELETE FROM {{lease}} WHERE name = ?1`),
		hand:     fill(`SELECT swept FROM {{schema}} WHERE version = {{version}}`),
		moveHand: fill(`UPDATE {{schema}} SET swept = ?1 WHERE version = {{version}}`),
		trim: fill(`DELETE FROM {{history}} WHERE at_us < ?2 AND seq IN (SELECT seq FROM {{history}} ORDER BY seq LIMIT ?1)
RETURNING 1`),
	}
	return s, tables{
		table:   table,
		exists:  `SELECT count(*) > 0 FROM sqlite_schema WHERE type IN ('table', 'view') AND name = ?1 COLLATE NOCASE`,
		version: fill(`SELECT coalesce(max(version), 0) FROM {{schema}}`),
		history: fill(`SELECT seq, at_us, kind, id, owner, token, actor, reason FROM {{history}} WHERE name = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3`),
		newest:  fill(`SELECT seq, at_us, kind, id, owner, token, actor, reason FROM {{history}} WHERE name = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3`),
		others:  []string{historySuffix},
		create:  strings.Split(fill(sqliteSchema), ";\n"),
	}
}

const sqliteSchema = `CREATE TABLE {{lease}} (
	name         TEXT PRIMARY KEY NOT NULL COLLATE BINARY,
	version      INTEGER NOT NULL,
	token        INTEGER NOT NULL,
	id           TEXT NOT NULL,
	owner        TEXT NOT NULL,
	ttl_us       INTEGER,
	metadata     TEXT NOT NULL,
	acquired_us  INTEGER,
	expires_us   INTEGER NOT NULL,
	boot         TEXT NOT NULL,
	boot_us      INTEGER NOT NULL,
	breaking     INTEGER NOT NULL,
	broken_by    TEXT NOT NULL,
	break_reason TEXT NOT NULL,
	ended        BLOB NOT NULL,
	waiters      TEXT NOT NULL
) STRICT;
CREATE TABLE {{history}} (
	seq    INTEGER PRIMARY KEY AUTOINCREMENT,
	name   TEXT NOT NULL COLLATE BINARY,
	at_us  INTEGER NOT NULL,
	kind   TEXT NOT NULL,
	id     TEXT NOT NULL,
	owner  TEXT NOT NULL,
	token  INTEGER NOT NULL,
	actor  TEXT NOT NULL,
	reason TEXT NOT NULL
) STRICT;
CREATE INDEX {{history_index}} ON {{history}} (name, seq);
CREATE TABLE {{schema}} (
	version    INTEGER PRIMARY KEY NOT NULL,
	swept      TEXT NOT NULL DEFAULT '',
	applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;
INSERT INTO {{schema}} (version) VALUES ({{version}})`
