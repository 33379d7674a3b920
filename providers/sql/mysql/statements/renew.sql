-- Writes many rows on the conditions of update.sql. They are looked up in the order of the list, so that all lock them in one order.
UPDATE (
	SELECT ? AS name, ? AS version, ? AS next, ? AS ttl, ? AS metadata, ? AS expires, ? AS until/* UNION ALL SELECT ?, ?, ?, ?, ?, ?, ?*/
) AS r STRAIGHT_JOIN {{lease}} AS l ON l.name = r.name
SET l.version = r.next, l.ttl_us = r.ttl, l.metadata = r.metadata, l.expires_us = r.expires WHERE l.version = r.version AND {{now}} < r.until
