SELECT h.seq, h.at_us, h.kind, h.id, h.owner, h.token, h.actor, h.reason FROM {{history}} AS h
WHERE h.name = ?b AND h.seq > ? ORDER BY h.seq OFFSET 0 ROWS FETCH NEXT ? ROWS ONLY
