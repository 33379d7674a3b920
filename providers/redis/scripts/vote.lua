-- vote (Redlock): lease fence queue; id ttl keep tail channel try floor.
--
-- An acquire at one node. floor is what the caller takes for the latest clock of all
-- nodes, and a little more: a node that is not far behind makes it the token, so
-- that most often all nodes make the same one and need not be told the highest. Replies,
-- if the claim holds this node, with VOTED and a text: token won made promise before
-- clock, and the ID that was released here last. A node in quarantine tells that too.

local AHEAD = 100000 -- microseconds by which a token may be ahead of this node's clock

local function voted(token, won, made, promise, before, freed)
  return {VOTED, token .. ' ' .. won .. ' ' .. made .. ' ' .. promise .. ' ' .. before .. ' ' .. nowText .. ' ' .. freed}
end

local function lastReleased(f) return match(f, '^%d+ ([^ !@]+) ') or '' end

-- again: the claim holds this node already. The lease is never shortened.
local function again(lease, fence, held, a)
  if sub(held, 1, 1) == '!' then return {ENDED} end
  local ttl, keep, try = ARGV[a + 2], ARGV[a + 3], ARGV[a + 6]
  local longer = call('PTTL', lease) < tonumber(ttl)
  local id, token, at, promise, made, won, before, kept, tail = open(longer and altered(held, ttl, '') or held)
  if tonumber(try) > tonumber(promise) then promise = try end
  local new = seal(id, token, at, promise, made, won, before, kept, tail)
  if new ~= held then call('SET', lease, new, 'KEEPTTL') end
  if longer then
    call('PEXPIRE', lease, ttl)
    if keep == '0' then call('PERSIST', fence) else call('PEXPIRE', fence, keeping(tonumber(token), keep)) end
  end
  return voted(token, won, made, promise, before, '')
end

local function run(k, a)
  local lease, fence, queue, id = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a + 1]
  local held, f = call('GET', lease), call('GET', fence) or '0 '
  if mute > 0 then return refuse(a, queue, {QUARANTINED, mute, lastReleased(f)}) end -- it wakes waiters all the same
  if ended(f, id) then return {ENDED} end
  if held then
    if match(held, '^!?([^\n]*)') == id then return again(lease, fence, held, a) end
    return refuse(a, queue, {HELD, held, call('PTTL', lease), now})
  end
  local space = find(f, ' ', 1, true)
  local before = sub(f, 1, space - 1)
  local last = tonumber(before)
  local left, rest = turn(sub(f, space), id)
  if left > 0 then return refuse(a, queue, {RESERVED, last, left}) end
  local try, floor = ARGV[a + 6], tonumber(ARGV[a + 7])
  if floor - now > AHEAD then floor = 0 end
  local token = math.max(last + 1, now, floor)
  if token >= 2^53 then return {FAILED, 'ERR fencing token out of range'} end
  local text = string.format('%.0f', token)
  set(fence, text .. rest, keeping(token, ARGV[a + 3]))
  set(lease, seal(id, text, nowText, try, try, '0', before, '0', ARGV[a + 4]), ARGV[a + 2])
  if ARGV[a + 5] ~= '' then redis.pcall('ZREM', queue, id .. ' ' .. ARGV[a + 5]) end
  return voted(text, '0', try, try, before, lastReleased(f))
end
