-- break: lease fence queue; token-or-0 immediate grace keep note. The note is who breaks
-- the lease and why, a line each: those of the first to do so are kept. Replies whether
-- the name was held, the latest token, and the time left (ms).

-- rouse is for a node of Redlock that has lost the lease and casts no vote: waiters may
-- be here all the same, and it is the one that wakes them.
local function rouse(fence, queue, keep)
  local reservation = wake(fence, queue)
  if reservation ~= '' then
    local f = call('GET', fence) or '0 '
    set(fence, reserve(f, reservation), keeping(tonumber(match(f, '^%d+')), keep))
  end
end

local function run(k, a)
  local lease, fence, queue = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3]
  local ifToken, immediate, grace, keep = tonumber(ARGV[a + 1]), ARGV[a + 2] == '1', ARGV[a + 3], ARGV[a + 4]
  if mute > 0 then
    if immediate then rouse(fence, queue, keep) end
    return {QUARANTINED, mute}
  end
  local held, f = call('GET', lease), call('GET', fence)
  f = f or held and (match(held, '\n(%d+)') or '') .. ' ' or '0 ' -- somebody may have deleted it
  -- With Redlock the fence may be ahead of the lease: somebody got this node in vain.
  local token = tonumber(match(held or f, held and '\n(%d+)' or '^%d+'))
  if not token then return {FAILED, 'WRONGTYPE this is no lease'} end
  if ifToken > 0 and token ~= ifToken then return {STALE, token} end
  if not held then return {BROKEN, 0, token, 0} end
  local id, left = match(held, '^!?([^\n]*)'), 0
  if immediate then
    call('DEL', lease)
    f = reserve(f, wake(fence, queue))
  else
    if sub(held, 1, 1) ~= '!' then call('SET', lease, '!' .. held .. '\n' .. ARGV[a + 5], 'KEEPTTL') end
    if call('PTTL', lease) < 0 then call('PEXPIRE', lease, grace) end
    left = call('PTTL', lease)
    if keep ~= '0' then keep = string.format('%.0f', keep + left) end
  end
  if not ended(f, id) then f = remember(f, id .. '!') end
  set(fence, f, keeping(tonumber(match(f, '^%d+')), keep))
  return {BROKEN, 1, token, left}
end
