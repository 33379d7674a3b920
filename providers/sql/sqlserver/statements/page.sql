-- A page of rows to sweep.
DECLARE @start bigint = {{clock}};
SELECT l.name, {{row}} FROM {{lease}} AS l WHERE l.name > ?b ORDER BY l.name OFFSET 0 ROWS FETCH NEXT ? ROWS ONLY
