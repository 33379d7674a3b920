-- Entries of the history.
INSERT INTO {{history}} (name, at_us, kind, id, owner, token, actor, reason) VALUES (?b, ?, ?, ?, ?, ?, ?, ?)/*, (?b, ?, ?, ?, ?, ?, ?, ?)*/
