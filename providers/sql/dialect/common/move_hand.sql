UPDATE {{schema}} SET swept = ? WHERE version = {{version}}
