-- What most operations need. The functions of an operation, down to its run, are made
-- together, by the first of a call that needs them.

-- set writes a key that expires after some time (ms).
local function set(key, value, ms)
  if ms == '0' then
    call('SET', key, value)
  else
    call('SET', key, value, 'PX', ms)
  end
end

-- keeping is how long to keep a fence (ms): until its token is in the past too, so
-- that the clock alone then makes the next token greater.
local function keeping(token, ms)
  if token <= now or ms == '0' then return ms end
  return string.format('%.0f', ms + math.ceil((token - now) / 1000))
end

-- ended says whether an ID is among those that ended, and whether it was broken.
local function ended(fence, id)
  if not find(fence, ' ' .. id, 1, true) then return false, false end
  if find(fence, ' ' .. id .. '! ', 1, true) then return true, true end
  return find(fence, ' ' .. id .. ' ', 1, true) ~= nil, false
end

-- altered is a lease that is not broken with another TTL and, unless they are empty,
-- other metadata.
local function altered(held, ttl, metadata)
  local head, owner, stored = match(held, '^([^\n]*\n%d+\n%d+\n[^\n]*\n)%d+\n([^\n]*)\n([^\n]*)$')
  if not head then return held end
  return head .. ttl .. '\n' .. owner .. '\n' .. (metadata == '' and stored or metadata)
end

-- rewrite stores what was altered. That the TTL is shown as it was, for want of memory,
-- must not end a lease: pcall.
local function rewrite(lease, held, new, metadata)
  if new == held then return end
  local write = metadata == '' and redis.pcall or call
  write('SET', lease, new, 'KEEPTTL')
end

-- reason is the error of an operation, its code first. Of a right that is missing in a
-- script Redis 7.0 says no more than ERR, so that is asked for.
local function reason(failed, k)
  local text = type(failed) == 'table' and failed.err or tostring(failed)
  if sub(text, 1, 4) ~= 'ERR ' or not redis.acl_check_cmd then return text end
  for _, command in ipairs({'get', 'set', 'exists', 'del', 'pttl', 'pexpire', 'persist', 'zadd', 'zrem'}) do
    for i = k + 1, k + KEYS_EACH do
      if not redis.acl_check_cmd(command, KEYS[i]) then return 'NOPERM no right to ' .. command end
    end
  end
  return text
end
