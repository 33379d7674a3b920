SELECT token FROM {{lease}} WHERE name = ''
