-- The rows of those names that there are.
SELECT {{row}} FROM {{lease}} AS l WHERE l.name IN (?/*, ?*/)
