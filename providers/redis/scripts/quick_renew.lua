-- The common renewal: by the holder, with nothing new but the time, and with the fence
-- kept for long enough.

local function quick(k, a)
  local lease, head, ttl, keep = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
  if ttl == '0' or keep == '0' or ARGV[a + 4] ~= '' then return end
  local held = redis.pcall('GET', lease)
  if type(held) ~= 'string' or sub(held, 1, #head) ~= head then return end
  if match(held, '^%d+\n[^\n]*\n(%d+)', #head + 1) ~= ttl then return end
  local left = redis.pcall('PTTL', KEYS[k + 2])
  if type(left) ~= 'number' or left < tonumber(keep) then return end
  if redis.pcall('PEXPIRE', lease, ttl) ~= 1 then return end
  return 0
end
