SELECT seq, at_us, kind, id, owner, token, actor, reason FROM {{history}} WHERE name = ? AND seq < ? ORDER BY seq DESC LIMIT ?
