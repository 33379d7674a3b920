SELECT {{row}} FROM {{lease}} WHERE name = ?
