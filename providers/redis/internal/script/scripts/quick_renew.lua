
  -- The holder renews for as long as before. This writes what renew.lua would.
  local key, same = KEYS[k + 1], ARGV[a + 1]
  local text = redis.pcall('GET', key) or EMPTY
  if not text.err and byte(text) == 65 and find(text, same, 17, true) == 17 and sub(text, 3, 15) > nowMillis and sub(text, 18, 33) <= past -- "A"
    and keep ~= '0' then
    head = head or nowMillis + ttl + 1 .. ''
    local done = redis.pcall('SET', key, sub(text, 1, 2) .. head .. sub(text, 16), 'PX', keep)
    if not done.err then reply = 0 end
  end
