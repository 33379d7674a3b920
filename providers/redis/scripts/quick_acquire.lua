-- The common acquire: the name is free and reserved for nobody, and its token is in
-- the past. SET NX leaves alone what is not ours: MGET shows keys of other types as
-- missing.

local function quick(k, a)
  local lease, fence, id, ttl, keep, channel = KEYS[k + 1], KEYS[k + 2], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 5]
  if ttl == '0' or keep == '0' then return end
  local got = redis.pcall('MGET', lease, fence)
  local f = got[2]
  if got.err or got[1] then return end
  local rest = ' '
  if f then
    if find(f, '@', 1, true) or find(f, ' ' .. id, 1, true) then return end
    local space = find(f, ' ', 1, true)
    if space ~= #nowText + 1 or sub(f, 1, space - 1) >= nowText then return end
    rest = sub(f, space)
  end
  local done = redis.pcall('SET', lease, id .. '\n' .. nowText .. '\n' .. nowText .. '\n\n' .. ARGV[a + 4], 'PX', ttl, 'NX')
  if not done or done.err then return end
  done = redis.pcall('SET', fence, nowText .. rest, 'PX', keep, f and 'XX' or 'NX')
  if not done or done.err then
    redis.pcall('DEL', lease)
    return
  end
  if channel ~= '' then redis.pcall('ZREM', KEYS[k + 3], id .. ' ' .. channel) end
  return now
end
