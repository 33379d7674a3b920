-- Writes a row if its version, token and ID are still the same, and the clock before a time.
UPDATE l SET version = ?, token = ?, id = ?, owner = ?, ttl_us = ?, metadata = ?, acquired_us = ?, expires_us = ?,
	breaking = ?, broken_by = ?, break_reason = ?, ended = ?, waiters = ?
FROM {{lease}} AS l WHERE l.name = ?b AND {{was}} = ? AND l.token = ? AND l.id = ? AND {{clock}} < ?
