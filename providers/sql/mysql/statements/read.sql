-- The row of a name, or of no name. The statement fails if the table has lost its key, without which insert.sql would add a second row.
SELECT {{row}} FROM (SELECT 1) AS one LEFT JOIN {{lease}} AS l FORCE INDEX (PRIMARY) ON l.name = ?
