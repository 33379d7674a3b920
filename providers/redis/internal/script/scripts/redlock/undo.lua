-- undo (Redlock): name queue; id try since place.
--
-- Frees the node if one of the claim's attempts from since to try has got it, unless a later one
-- has asked here or the lease was renewed here. The place, if not empty, puts the claim back
-- into the queue, which it had left. Replies 0.

local function run(k, a)
  local key, id, try, since, place = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 3]), ARGV[a + 4]
  local text = read(key)
  local r = open(text)
  if not r.held or r.id ~= id or r.promise ~= try or tonumber(r.made) < since then return 0 end
  if place ~= '' and not hasEnded(r.ended, digestOf(id)) and pcall(enqueue, k, text, id, place) and r.flag == '-' then r.flag = 'w' end
  local free = 'A' .. r.flag .. NEVER .. ' F' .. r.last .. ' \n\n' .. r.ended
  if r.flag == 'm' then free = vacant(k, r.flag, r.last, r.ended) end
  call('SET', key, free, 'KEEPTTL')
  return 0
end
