
  -- The holder releases a name for which nobody waits. This writes what release.lua would.
  local key, id = KEYS[k + 1], ARGV[a + 2]
  local text = redis.pcall('GET', key) or EMPTY
  if not text.err and byte(text) == 65 and byte(text, 2) == 45 and byte(text, 17) == 72 and sub(text, 18, 33) <= past -- "A", "-", "H"
    and keep ~= '0' and find(text, id, 35, true) == 35 and byte(text, 35 + #id) == 10 then
    local from = find(text, '\n', 36 + #id, true) + 1
    local to = math.min(find(text, '\n', from, true) - 1, from + 104)
    local done = redis.pcall('SET', key, 'A-0000000000000 F' .. sub(text, 18, 34) .. '\n\n ' .. ARGV[a + 1] .. sub(text, from, to), 'PX', keep)
    if not done.err then reply = 0 end
  end
