-- A page of records. The clocks are the last parameters.
SELECT l.name, {{row}} FROM {{lease}} AS l WHERE l.name >= ?1 AND l.name > ?2 AND l.name < ?3 AND l.token > 0
	AND (NOT ?4 OR l.id <> '' AND (l.expires_us = 0 OR CASE WHEN l.boot <> '' AND l.boot = ?8 THEN l.boot_us > ?7 ELSE l.expires_us > ?6 END))
ORDER BY l.name LIMIT ?5
