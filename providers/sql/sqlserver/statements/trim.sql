-- Deletes those of the oldest entries that are too old.
DELETE h FROM (SELECT TOP (?) o.seq FROM {{history}} AS o ORDER BY o.seq) AS oldest INNER JOIN {{history}} AS h ON h.seq = oldest.seq
WHERE h.at_us < {{clock}} - ?
