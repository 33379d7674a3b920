-- Deletes rows that nobody has changed since they were read.
DELETE l FROM (SELECT ? AS name, ? AS version/* UNION ALL SELECT ?, ?*/) AS r STRAIGHT_JOIN {{lease}} AS l ON l.name = r.name
WHERE l.version = r.version
