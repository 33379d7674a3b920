-- Where the latest sweep has ended.
SELECT swept FROM {{schema}} WHERE version = {{version}}
