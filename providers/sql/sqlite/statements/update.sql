UPDATE {{lease}} SET version = ?2, token = ?3, id = ?4, owner = ?5, ttl_us = ?6, metadata = ?7, acquired_us = ?8, expires_us = ?9,
	breaking = ?10, broken_by = ?11, break_reason = ?12, ended = ?13, waiters = ?14, boot = ?15, boot_us = ?16 WHERE name = ?1
