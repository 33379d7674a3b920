WITH {{trim:$1}} SELECT pg_catalog.count(*) FROM trimmed
