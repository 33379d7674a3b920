-- SQLite compares the names of tables without case.
SELECT count(*) > 0 FROM sqlite_schema WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE
