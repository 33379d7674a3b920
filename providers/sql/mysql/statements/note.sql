-- An entry of the history, if the row was written.
INSERT INTO {{history}} (name, at_us, kind, id, owner, token, actor, reason)
SELECT ?, ?, ?, ?, ?, ?, ?, ? FROM (SELECT 1) AS one WHERE @leasing_written > 0
