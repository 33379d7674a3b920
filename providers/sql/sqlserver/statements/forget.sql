-- Deletes rows that have not changed since they were read.
DELETE l FROM (VALUES (?b, ?)/*, (?b, ?)*/) AS r (name, version) INNER JOIN {{lease}} AS l ON l.name = r.name WHERE {{was}} = r.version
