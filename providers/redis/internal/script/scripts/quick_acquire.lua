return run
end

-- A claim that does not wait acquires a name that is free, whose latest token is in the past and
-- in which nothing looks like its ID. All else is for the rest.
local whole
local function run(k, a)
  local key, id, ttl, keep = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
  local text = call('GET', key) or EMPTY
  if byte(text) == 49 and byte(text, 17) == 70 and byte(text, 34) == 32 and sub(text, 18, 33) < now -- "1", "F", " "
    and keep ~= '0' and ARGV[a + 5] == '' and not find(text, id, 35, true) then
    call('SET', key, '1' .. sub(text, 2, 2) .. nowMillis + ttl + 1 .. ' H' .. now .. ' ' .. id .. '\n' .. ttl .. '\n' .. sub(text, 37) .. '\n' .. ARGV[a + 4], 'PX', keep)
    return now
  end
  whole = whole or rest()
  return whole(k, a)
end
