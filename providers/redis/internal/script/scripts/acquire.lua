-- acquire: name queue; id ttl keep content channel.
--
-- content is owner and metadata, a line each. The channel, if
-- not empty, makes the claim a waiter where it is refused. Replies with the token.

-- again: the reply to the first was lost. The lease is prolonged and never shortened,
-- and nothing else of it changes, since the request may be a late copy.
local function again(key, text, a)
  if sub(text, 17, 17) == 'B' then return {ENDED} end
  local ttl, till, token = ARGV[a + 2], deadline(ARGV[a + 2]), sub(text, 18, 33)
  if till > sub(text, 3, 15) then
    local head, rest = match(text, '^([^\n]*\n)%d+(.*)$', 16)
    write(key, sub(text, 1, 2) .. till .. head .. ttl .. rest, token, ARGV[a + 3])
  end
  return token
end

local function run(k, a)
  local key, id, ttl, channel = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2], ARGV[a + 5]
  local text, state = read(key)
  local token, line, ended = now, ttl
  if state == 'F' then
    ended = sub(text, 37)
  else
    local holder
    holder, ended = match(text, '^([^\n]*)\n[^\n]*\n([^\n]*)', 35)
    if state ~= 'R' and sub(text, 3, 15) > nowMillis then
      if holder == id then return again(key, text, a) end
      if not hasEnded(ended, id) then
        text = settled(k, text)
        return refuse(k, a, text, {SEEN, text, now})
      end
    end
    if state == 'B' and not hasEnded(ended, holder) then ended = remember(ended, holder .. '!') end
  end
  if hasEnded(ended, id) then return {ENDED} end
  if state == 'R' and reserved(text, id) then return refuse(k, a, text, {SEEN, text, now}) end
  local last = sub(text, 18, 33)
  if last >= now then
    if last + 1 >= 2^53 then return {FAILED, 'ERR fencing token out of range'} end
    token, line = tokenText(last + 1), ttl .. ' ' .. now
  end
  write(key, '1' .. sub(text, 2, 2) .. deadline(ttl) .. ' H' .. token .. ' ' .. id .. '\n' .. line .. '\n' .. ended .. '\n' .. ARGV[a + 4], token, ARGV[a + 3])
  if channel ~= '' then redis.pcall('ZREM', KEYS[k + 2], id .. ' ' .. channel) end
  return token
end
