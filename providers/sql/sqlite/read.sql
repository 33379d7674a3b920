SELECT {{row}} FROM {{lease}} AS l WHERE l.name = ?
