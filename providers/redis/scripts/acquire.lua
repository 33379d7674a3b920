-- acquire: name queue; id ttl keep content channel.
--
-- content is owner and metadata, a line each. The channel, if
-- not empty, makes the claim a waiter where it is refused. Replies with the token.

-- again: the reply to the first was lost. The lease is prolonged and never shortened,
-- and nothing else of it changes, since the request may be a late copy.
local function again(key, text, a)
  if sub(text, 17, 17) == 'B' then return {ENDED} end
  local ttl, till = ARGV[a + 2], deadline(ARGV[a + 2])
  if till > sub(text, 3, 15) then
    local head, rest = match(text, '^([^\n]*\n[^\n]*\n)%d+(.*)$', 16)
    write(key, sub(text, 1, 2) .. till .. head .. ttl .. rest, ARGV[a + 3])
  end
  return tonumber(sub(text, 18, 33))
end

local function run(k, a)
  local key, id, ttl, channel = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2], ARGV[a + 5]
  local text = read(key)
  local state, ended = sub(text, 17, 17)
  if state == 'F' then
    ended = sub(text, 36, -2)
  else
    local holder
    holder, ended = match(text, '^([^\n]*)\n([^\n]*)', 35)
    if (state == 'H' or state == 'B') and sub(text, 3, 15) > nowMillis then
      if holder == id then return again(key, text, a) end
      if not hasEnded(ended, id) then return refuse(k, a, text, {SEEN, text, now}) end
    end
    if state == 'B' and not hasEnded(ended, holder) then ended = remember(ended, holder .. '!') end
  end
  if hasEnded(ended, id) then return {ENDED} end
  if reserved(text, id) then return refuse(k, a, text, {SEEN, text, now}) end
  local token, line = nowText, ttl
  if token <= sub(text, 18, 33) then
    token = sub(text, 18, 33) + 1
    if token >= 2^53 then return {FAILED, 'ERR fencing token out of range'} end
    token = format('%016.0f', token)
    line = ttl .. ' ' .. nowText
  end
  local head = '1' .. sub(text, 2, 2) .. deadline(ttl) .. ' H' .. token .. ' ' .. id .. '\n'
  write(key, head .. ended .. '\n' .. line .. '\n' .. ARGV[a + 4], ARGV[a + 3])
  if channel ~= '' then redis.pcall('ZREM', KEYS[k + 2], id .. ' ' .. channel) end
  return tonumber(token)
end
