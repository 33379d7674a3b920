-- A page of rows to sweep.
SELECT {{row}} FROM {{lease}} AS l WHERE l.name > ? ORDER BY l.name LIMIT ?
