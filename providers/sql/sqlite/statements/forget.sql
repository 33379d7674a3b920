DELETE FROM {{lease}} WHERE name = ?
