
  -- A claim that does not wait asks a node that is free, which knows the name, takes the token that is proposed, and has nothing
  -- in it that looks like its ID. This does what vote.lua would.
  local key, id, try, token = KEYS[k + 1], ARGV[a + 2], ARGV[a + 5], ARGV[a + 6]
  local text = redis.pcall('GET', key) or EMPTY
  if not text.err and byte(text) == 65 and byte(text, 17) == 70 and byte(text, 18) ~= 48 and byte(text, 34) == 32 -- "A", "F", not "0", " "
    and keep ~= '0' and quarantine == 0 and ARGV[a + 4] == '' and math.abs(token - now) <= NEAR and not find(text, ARGV[a + 1], 37, true) then
    local last = sub(text, 18, 33)
    if last < token then
      head, line = head or nowMillis + ttl + 1 .. ' H', line or '\n' .. ttl .. ' ' .. now .. ' '
      local done = redis.pcall('SET', key, 'A' .. sub(text, 2, 2) .. head .. token .. ' ' .. id .. line .. try .. ' ' .. try .. ' ' .. last .. ' ' .. token
        .. '\n' .. sub(text, 37) .. ARGV[a + 3], 'PX', keep)
      if not done.err then reply = token .. ' ' .. try .. ' ' .. last .. ' ' .. now .. ' ' .. (byte(text, 37) == 32 and sub(text, 38, 51) or '') end
    end
  end
