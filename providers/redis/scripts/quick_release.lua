-- The common release: by the holder, with nobody waiting. Of the IDs before it those
-- are dropped for which there is no room, if all are as long as this one, as
-- leasing.NewID's are.

local ROOM = 8

local function quick(k, a)
  local lease, fence, id, keep = KEYS[k + 1], KEYS[k + 2], ARGV[a + 1], ARGV[a + 2]
  local got = redis.pcall('MGET', lease, fence)
  local held, f = got[1], got[2]
  if got.err or not held or not f or keep == '0' then return end
  if sub(held, 1, #id + 1) ~= id .. '\n' or find(f, '@', 1, true) or find(f, ' ' .. id, 1, true) then return end
  local space = find(f, ' ', 1, true)
  if space ~= #nowText + 1 or sub(f, 1, space - 1) > nowText then return end
  f = sub(f, 1, space) .. id .. sub(f, space)
  local most = space + ROOM * (#id + 1)
  if #f > most then
    f = sub(f, 1, most)
    if sub(f, -1) ~= ' ' then return end
  end
  if redis.pcall('EXISTS', KEYS[k + 3]) ~= 0 then return end
  local done = redis.pcall('SET', fence, f, 'PX', keep)
  if done.err then return end
  done = redis.pcall('DEL', lease)
  if done ~= 1 then return end
  return 0
end
