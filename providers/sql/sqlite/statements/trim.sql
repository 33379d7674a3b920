-- Deletes those of the oldest entries that are too old.
DELETE FROM {{history}} WHERE at_us < ?2 AND seq IN (SELECT seq FROM {{history}} ORDER BY seq LIMIT ?1) RETURNING 1
