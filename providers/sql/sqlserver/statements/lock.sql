-- Processes that migrate do so one after the other. A number below 0 says that the lock was not granted within 5 s.
DECLARE @granted int;
EXEC @granted = sp_getapplock @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 5000;
SELECT @granted
