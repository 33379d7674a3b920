-- Writes a row if its version is still the same, and the clock before a time. SYSDATE is the time at which that is asked: after
-- the row was locked, where NOW would be that before the wait.
UPDATE {{lease}} SET version = ?, token = ?, id = ?, owner = ?, ttl_us = ?, metadata = ?, acquired_us = ?, expires_us = ?,
	breaking = ?, broken_by = ?, break_reason = ?, ended = ?, waiters = ? WHERE name = ? AND version = ? AND {{now}} < ?
