-- The rows of those names that there are.
DECLARE @start bigint = {{clock}};
SELECT l.name, {{row}} FROM {{lease}} AS l WHERE l.name IN (?b/*, ?b*/)
