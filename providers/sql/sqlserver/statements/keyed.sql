-- Without the key insert.sql would add a second row.
SELECT CAST(count(*) AS bit) FROM sys.indexes AS i WHERE i.object_id = OBJECT_ID(N'{{lease}}') AND i.is_primary_key = 1
