-- relock (Redlock): lease fence; head ttl keep tail at try.
--
-- A renewal on a node that may have lost the lease, or never had it. Unless tail is
-- empty it takes the node again if that has granted the name to nobody since, so that
-- its fence is no newer than ours; but not after the release, which the node
-- remembers. Replies 0, or why the claim is lost here: broken, taken, gone, expired, or
-- newer if the name is free and the fence's token newer.

-- raise raises a fence to a token.
local function raise(fence, f, token, keep)
  local last, rest = match(f or '0 ', '^(%d+)(.*)$')
  if tonumber(last) < tonumber(token) then last = token end
  set(fence, last .. rest, keeping(tonumber(last), keep))
end

-- hold renews what the claim holds here. The first renewal makes sure that the node
-- has the token that the majority agreed on, unless its memory is full: pcall.
local function hold(lease, fence, held, head, token, ttl, keep)
  local id, was, at, promise, made, _, before, kept, tail = open(held)
  call('PEXPIRE', lease, ttl)
  if was == token and kept == '1' then
    extend(fence, ttl, keep, head)
  elseif pcall(raise, fence, call('GET', fence), token, keep) then
    redis.pcall('SET', lease, seal(id, token, at, promise, made, promise, before, 1, tail), 'KEEPTTL')
  end
  return 0
end

local function run(k, a)
  if mute > 0 then return {QUARANTINED, mute} end
  local lease, fence, head, ttl, keep, tail, try = KEYS[k + 1], KEYS[k + 2], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], ARGV[a + 6]
  local id, token = match(head, '^([^\n]*)\n(%d+)\n')
  local held = call('GET', lease)
  if held and match(held, '^[^\n]*') == id then return hold(lease, fence, held, head, token, ttl, keep) end
  local f = call('GET', fence)
  local reason = why(held, f, id, token)
  if not held and reason == 'taken' then reason = 'newer' end -- somebody got this node, maybe no other
  if held or tail == '' or f and reason ~= 'expired' then return {LOST, reason} end
  local before = math.min(tonumber(match(f or '0', '^%d+')), token - 1) -- the token itself is from before, and ours
  raise(fence, f, token, keep)
  set(lease, seal(id, token, ARGV[a + 5], try, try, try, string.format('%.0f', before), 1, tail), ttl)
  return 0
end
