-- relock (Redlock): lease fence; head ttl keep tail at try metadata.
--
-- A renewal on a node that may have lost the lease, or never had it. Unless tail is
-- empty the token is known to be the claim's, and it takes the node again if that has
-- granted the name to nobody since, so that its fence is no newer than ours; but not
-- after the release, which the node remembers. The metadata, unless empty, replace what
-- is stored. Replies 0, or why the claim is lost here: broken, taken, gone, expired; or,
-- where the node alone can't tell, newer or older, as its token is.

-- raise raises a fence to a token.
local function raise(fence, f, token, keep)
  local last, rest = match(f or '0 ', '^(%d+)(.*)$')
  if tonumber(last) < tonumber(token) then last = token end
  set(fence, last .. rest, keeping(tonumber(last), keep))
end

-- differs is why a token is refused that is not the one that the node has.
local function differs(was, token, settled)
  if tonumber(was) > tonumber(token) then return {LOST, settled and 'taken' or 'newer'} end
  return {LOST, settled and 'gone' or 'older'}
end

-- hold renews what the claim holds here. The first renewal makes sure that the node
-- has the token that the majority agreed on, unless its memory is full: pcall.
local function hold(k, a, held, token)
  local lease, fence, ttl, keep, known, metadata = KEYS[k + 1], KEYS[k + 2], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4] ~= '', ARGV[a + 7]
  local new = altered(held, ttl, metadata)
  local id, was, at, promise, made, won, before, kept, tail = open(new)
  if was ~= token and not known then return differs(was, token, won ~= '0' or kept == '1') end
  rewrite(lease, held, new, metadata)
  call('PEXPIRE', lease, ttl)
  if was == token and kept == '1' then
    extend(fence, ttl, keep, ARGV[a + 1])
  elseif pcall(raise, fence, call('GET', fence), token, keep) then
    redis.pcall('SET', lease, seal(id, token, at, promise, made, promise, before, 1, tail), 'KEEPTTL')
  end
  return 0
end

-- lost is why the claim does not hold the node.
local function lost(held, f, id, token)
  local reason, note = why(held, f, id, token)
  if not held and reason == 'taken' then return 'newer' end -- somebody got this node, maybe no other
  if not held and reason == 'gone' and f and not ended(f, id) then return 'older' end
  return reason, note
end

local function run(k, a)
  if mute > 0 then return {QUARANTINED, mute} end
  local lease, fence, ttl, keep, tail, try = KEYS[k + 1], KEYS[k + 2], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], ARGV[a + 6]
  local id, token = match(ARGV[a + 1], '^([^\n]*)\n(%d+)\n')
  local held = call('GET', lease)
  if held and match(held, '^[^\n]*') == id then return hold(k, a, held, token) end
  local f = call('GET', fence)
  local reason, note = lost(held, f, id, token)
  local never = not f or reason == 'expired' or reason == 'older'
  if held or tail == '' or not never then return {LOST, reason, note} end
  local before = math.min(tonumber(match(f or '0', '^%d+')), token - 1) -- the token itself is from before, and ours
  raise(fence, f, token, keep)
  set(lease, seal(id, token, ARGV[a + 5], try, try, try, string.format('%.0f', before), 1, tail), ttl)
  return 0
end
