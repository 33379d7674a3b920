-- A page of records.
SELECT l.name, {{row}} FROM {{lease}} AS l WHERE l.name >= ? AND l.name > ? AND l.name < ? AND l.token > 0
	AND (NOT ? OR l.id <> '' AND (l.expires_us = 0 OR l.expires_us > {{start}})) ORDER BY l.name LIMIT ?
