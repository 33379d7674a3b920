-- A page of rows to sweep.
SELECT {{start}}, {{row}}, l.name FROM {{lease}} AS l WHERE l.name > ? ORDER BY l.name LIMIT ?
