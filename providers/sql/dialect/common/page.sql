-- A page of rows to sweep.
SELECT l.name, {{row}} FROM {{lease}} AS l WHERE l.name > ? ORDER BY l.name LIMIT ?
