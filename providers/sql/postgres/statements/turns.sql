-- Of the waiters in $1, a JSON array of {name, id}, returns those whose turn it is, or for whom nobody stands
-- in the way.
SELECT r.id
FROM pg_catalog.jsonb_to_recordset($1::text::jsonb) AS r(name text COLLATE "C", id text)
JOIN {{lease}} AS l ON l.name = r.name
CROSS JOIN (SELECT {{now}} AS now OFFSET 0) AS c
WHERE {{free:c.now}} OR {{turn:pg_catalog.decode(r.id, 'hex')}}
