-- acquire: lease fence queue; id ttl keep tail channel.
--
-- tail is what is stored of the request: TTL, owner, metadata. The channel, if
-- not empty, makes the claim a waiter where it is refused. Replies with the token.

-- again: the reply to the first was lost. The lease is prolonged and never shortened,
-- and nothing else of it changes, since the request may be a late copy.
local function again(lease, fence, held, a)
  if sub(held, 1, 1) == '!' then return {ENDED} end
  local ttl, keep, left, token = ARGV[a + 2], ARGV[a + 3], call('PTTL', lease), tonumber(match(held, '\n(%d+)'))
  if left >= 0 and (ttl == '0' or left < tonumber(ttl)) then rewrite(lease, held, altered(held, ttl, ''), '') end
  if left >= 0 and ttl == '0' then
    call('PERSIST', lease)
    call('PERSIST', fence)
  elseif left >= 0 and left < tonumber(ttl) then
    call('PEXPIRE', lease, ttl)
    if keep == '0' then call('PERSIST', fence) else call('PEXPIRE', fence, keeping(token, keep)) end
  end
  return token
end

local function run(k, a)
  if mute > 0 then return {QUARANTINED, mute} end
  local lease, fence, queue, id = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a + 1]
  local held, f = call('GET', lease), call('GET', fence) or '0 '
  if ended(f, id) then return {ENDED} end
  if held then
    if match(held, '^!?([^\n]*)') == id then return again(lease, fence, held, a) end
    return refuse(a, queue, {HELD, held, call('PTTL', lease), now})
  end
  local space = find(f, ' ', 1, true)
  local last = tonumber(sub(f, 1, space - 1))
  local left, rest = turn(sub(f, space), id)
  if left > 0 then return refuse(a, queue, {RESERVED, last, left}) end
  local token, text = last + 1, nowText
  if token > now then
    if token >= 2^53 then return {FAILED, 'ERR fencing token out of range'} end
    text = string.format('%.0f', token)
  else
    token = now
  end
  set(fence, text .. rest, keeping(token, ARGV[a + 3]))
  set(lease, id .. '\n' .. text .. '\n' .. nowText .. '\n\n' .. ARGV[a + 4], ARGV[a + 2])
  if ARGV[a + 5] ~= '' then redis.pcall('ZREM', queue, id .. ' ' .. ARGV[a + 5]) end
  return token
end
