-- Deletes those of the oldest entries that are too old.
DELETE h FROM {{history}} AS h JOIN (SELECT seq FROM {{history}} ORDER BY seq LIMIT ?) AS oldest ON oldest.seq = h.seq
WHERE h.at_us < {{now}} - ?
