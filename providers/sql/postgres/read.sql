-- The row of $1, if there is one, and the clock.
SELECT {{micros:c.now}}, {{row:l}}
FROM (SELECT {{now}} AS now OFFSET 0) AS c
LEFT JOIN {{lease}} AS l ON l.name = $1::text
