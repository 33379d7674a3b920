-- The rows of those names that there are.
SELECT l.name, {{row}} FROM {{lease}} AS l WHERE l.name IN (?/*, ?*/)
