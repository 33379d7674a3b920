-- A page of records.
DECLARE @start bigint = {{clock}};
SELECT l.name, {{row}} FROM {{lease}} AS l WHERE l.name >= ?b AND l.name > ?b AND l.name < ?b AND l.token > 0
	AND (? = 0 OR l.id <> N'' AND (l.expires_us = 0 OR l.expires_us > @start)) ORDER BY l.name OFFSET 0 ROWS FETCH NEXT ? ROWS ONLY
