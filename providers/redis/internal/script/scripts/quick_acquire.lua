
  -- A claim that does not wait acquires a name that is free, whose latest token is in the past and
  -- in which nothing looks like its ID. This writes what acquire.lua would.
  local key, id = KEYS[k + 1], ARGV[a + 2]
  local text = redis.pcall('GET', key) or EMPTY
  if not text.err and byte(text) == 65 and byte(text, 17) == 70 and byte(text, 34) == 32 and sub(text, 18, 33) < now -- "A", "F", " "
    and keep ~= '0' and ARGV[a + 4] == '' and not find(text, ARGV[a + 1], 37, true) then
    head, line = head or nowMillis + ttl + 1 .. ' H' .. now .. ' ', line or '\n' .. ttl .. '\n'
    local done = redis.pcall('SET', key, 'A' .. sub(text, 2, 2) .. head .. id .. line .. sub(text, 37) .. ARGV[a + 3], 'PX', keep)
    if not done.err then reply = now end
  end
