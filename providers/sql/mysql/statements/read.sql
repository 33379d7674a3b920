-- The row of a name, or what stands for none.
SELECT {{row}} FROM (SELECT 1) AS one LEFT JOIN {{lease}} AS l ON l.name = ?
