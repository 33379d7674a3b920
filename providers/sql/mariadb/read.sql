-- The row of a name, or what stands for none. The start of the statement is never later than what it sees.
SELECT {{start}}, {{row}} FROM (SELECT 1) AS one LEFT JOIN {{lease}} AS l ON l.name = ?
