-- The row of $1, if there is one, the clock, and whether the name is reserved for another than $2.
SELECT {{micros:c.now}}, {{row:l}}, {{kept:$2::bytea}}, coalesce(CASE WHEN coalesce(l.token, 0) = 0 THEN {{floor}} END, 0)
FROM (SELECT {{now}} AS now OFFSET 0) AS c
LEFT JOIN {{lease}} AS l ON l.name = $1::text
