-- Writes many rows on the conditions of update.sql. They are looked up in the order of the list, so that all lock them in one order.
UPDATE {{each}}, next BIGINT PATH '$.next', ttl BIGINT PATH '$.ttl', expires BIGINT PATH '$.expires', until BIGINT PATH '$.until',
	metadata TEXT CHARACTER SET utf8mb4 PATH '$.metadata'{{join}}
SET l.version = r.next, l.ttl_us = r.ttl, l.expires_us = r.expires, l.metadata = r.metadata WHERE l.version = r.version AND {{now}} < r.until
