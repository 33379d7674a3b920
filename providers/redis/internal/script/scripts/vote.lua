-- vote (Redlock): name queue; id ttl keep content channel try floor.
--
-- An acquire at one node. floor is the token that the caller proposes, the latest clock of all
-- nodes as far as it knows: a node whose clock shows about the same makes it the token, so
-- that most often all nodes make the same one and need not be told which counts. Replies,
-- if the claim holds this node, with VOTED and a text: token made before clock, and the ID
-- that was released here last. A node in quarantine tells that too.

local NEAR = 100000 -- microseconds by which a token may be off this node's clock

local function voted(r, freed)
  return {VOTED, r.token .. ' ' .. r.made .. ' ' .. r.before .. ' ' .. now .. ' ' .. freed}
end

local function lastReleased(r) return match(r.ended, '^ ([^ !]+) ') or '' end

-- again: the claim holds this node already. The lease is never shortened.
local function again(key, r, a)
  if r.state == 'B' then return {ENDED} end
  local ttl, try, till = ARGV[a + 2], ARGV[a + 6], deadline(ARGV[a + 2])
  if tonumber(try) > tonumber(r.promise) then r.promise = try end
  if till > r.till then
    r.ttl, r.till = ttl, till
    write(key, seal(r), r.last, ARGV[a + 3])
  else
    call('SET', key, seal(r), 'KEEPTTL')
  end
  return voted(r, '')
end

local function run(k, a)
  local key, id, try, floor = KEYS[k + 1], ARGV[a + 1], ARGV[a + 6], tonumber(ARGV[a + 7])
  local text = read(key)
  local r = open(text)
  if mute > 0 then return refuse(k, a, text, {QUARANTINED, mute, lastReleased(r)}) end -- it wakes waiters all the same
  if r.state == 'B' and not hasEnded(r.ended, r.id) then r.ended = remember(r.ended, r.id .. '!') end
  if hasEnded(r.ended, id) then return {ENDED} end
  if r.held and r.id == id then return again(key, r, a) end
  if r.held or reserved(text, id) then
    text = settled(k, text)
    return refuse(k, a, text, {SEEN, text, now})
  end
  if math.abs(floor - now) > NEAR then floor = tonumber(now) end
  local token = math.max(r.last + 1, floor)
  if token >= 2^53 then return {FAILED, 'ERR fencing token out of range'} end
  local freed = lastReleased(r)
  r.till, r.state, r.id, r.ttl, r.at = deadline(ARGV[a + 2]), 'H', id, ARGV[a + 2], now
  r.promise, r.made, r.before, r.token = try, try, r.last, tokenText(token)
  r.last, r.content = r.token, ARGV[a + 4]
  write(key, seal(r), r.last, ARGV[a + 3])
  if ARGV[a + 5] ~= '' then redis.pcall('ZREM', KEYS[k + 2], id .. ' ' .. ARGV[a + 5]) end
  return voted(r, freed)
end
