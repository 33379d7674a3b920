-- The rows of those names that there are. The list is completed.
SELECT {{start}}, {{row}}, l.name FROM {{lease}} AS l WHERE l.name IN (?
