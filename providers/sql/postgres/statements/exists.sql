SELECT EXISTS (
	SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relname = $1::text AND n.nspname = $2::text
)
