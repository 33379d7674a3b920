-- Ends the transaction of a change. It commits if so many rows were written before a time. The clock is read again, with the rows locked: the
-- clock of the statement that wrote them is that before a wait for their locks.
IF @written = ? AND {{clock}} < ? COMMIT TRANSACTION ELSE BEGIN ROLLBACK TRANSACTION; SET @written = 0 END
