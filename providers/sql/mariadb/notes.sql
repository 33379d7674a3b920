-- Entries of the history. The list is completed.
INSERT INTO {{history}} (name, at_us, kind, id, owner, token, actor, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
