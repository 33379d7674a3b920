-- Deletes rows that nobody has changed since they were read.
DELETE l FROM {{each}}{{join}} WHERE l.version = r.version
