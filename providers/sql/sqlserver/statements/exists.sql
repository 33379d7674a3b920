-- A table, a view or a synonym. A user sees the objects that the user has a right on.
SELECT CAST(count(*) AS bit) FROM sys.objects AS o INNER JOIN sys.schemas AS s ON s.schema_id = o.schema_id
WHERE o.name = ? AND s.name = ? AND o.type IN ('U', 'V', 'SN')
