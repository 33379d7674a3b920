UPDATE {{schema}} SET swept = ?b WHERE version = {{version}}
