-- vote (Redlock): name queue; digest id content place try floor.
--
-- An acquire at one node. floor is the token that the caller proposes, the latest clock of all
-- nodes as far as it knows: a node whose clock shows about the same makes it the token, so
-- that most often all nodes make the same one and need not be told which counts. Replies,
-- if the claim holds this node, with a text: token made before clock, and the
-- digest of the ID that was released here last. A node in quarantine tells that too.

local function voted(token, made, before, freed)
  return token .. ' ' .. made .. ' ' .. before .. ' ' .. now .. ' ' .. freed
end

local function lastReleased(ended) return byte(ended) == 32 and sub(ended, 2, 15) or '' end

-- again: the claim holds this node already. The lease is never shortened.
local function again(key, r, a)
  if r.state == 'B' then return {ENDED} end
  local try, till = ARGV[a + 5], deadline()
  if tonumber(try) > tonumber(r.promise) then r.promise = try end
  if till > r.till then
    r.ttl, r.till = ttl, till
    write(key, seal(r), r.last)
  else
    call('SET', key, seal(r), 'KEEPTTL')
  end
  return voted(r.token, r.made, r.before, '')
end

local function run(k, a)
  local key, digest, id, place, try, floor = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2], ARGV[a + 4], ARGV[a + 5], ARGV[a + 6]
  local text, ended = read(key)
  local state, last = sub(text, 17, 17), sub(text, 18, 33)
  if state == 'F' then
    ended = sub(text, 37)
  else
    local r = open(text)
    ended = r.ended
    if state == 'B' then ended = withBroken(ended, r.id) end
    if quarantine > 0 or hasEnded(ended, digest) then -- below
    elseif r.held and r.id == id then return again(key, r, a)
    elseif r.held or reserved(text, id) then
      text = settled(k, text)
      return refuse(k, a, text, {SEEN, text, now})
    end
  end
  if quarantine > 0 then return refuse(k, a, text, {QUARANTINED, quarantine, lastReleased(ended)}) end -- it wakes waiters all the same
  if hasEnded(ended, digest) then return {ENDED} end
  local token = math.abs(floor - now) > NEAR and now or floor
  if last == NONE and token < now then token = now end -- what was forgotten is in this clock's past
  if last >= token then token = following(last) end
  write(key, 'A' .. sub(text, 2, 2) .. deadline() .. ' H' .. token .. ' ' .. id .. '\n'
    .. ttl .. ' ' .. now .. ' ' .. try .. ' ' .. try .. ' ' .. last .. ' ' .. token .. '\n' .. ended .. ARGV[a + 3], token)
  if place ~= '' then redis.pcall('ZREM', KEYS[k + 2], id .. ' ' .. place) end
  return voted(token, try, last, lastReleased(ended))
end
