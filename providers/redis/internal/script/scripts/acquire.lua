-- acquire: name queue; digest id content place.
--
-- content is owner and metadata, a line break before each. The place, if not empty,
-- makes the claim a waiter where it is refused. Replies with the token.

-- again: the reply to the first was lost. The lease is prolonged and never shortened,
-- and nothing else of it changes, since the request may be a late copy.
local function again(key, text, a)
  if sub(text, 17, 17) == 'B' then return {ENDED} end
  local till, token = deadline(), sub(text, 18, 33)
  if till > sub(text, 3, 15) then
    local head, rest = match(text, '^([^\n]*\n)%d+(.*)$', 16)
    write(key, sub(text, 1, 2) .. till .. head .. ttl .. rest, token)
  end
  return token
end

local function run(k, a)
  local key, digest, id, place = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2], ARGV[a + 4]
  local text, state = read(key)
  local token, line, ended = now, ttl
  if state == 'F' then
    ended = sub(text, 37)
  else
    local holder
    holder, ended = match(text, '^([^\n]*)\n[^\n]*\n([^\n]*)', 35)
    if state ~= 'R' and sub(text, 3, 15) > nowMillis then
      if holder == id then return again(key, text, a) end
      if not hasEnded(ended, digest) then
        text = settled(k, text)
        return refuse(k, a, text, {SEEN, text, now})
      end
    end
    if state == 'B' then ended = withBroken(ended, holder) end
  end
  if hasEnded(ended, digest) then return {ENDED} end
  if state == 'R' and reserved(text, id) then return refuse(k, a, text, {SEEN, text, now}) end
  local last = sub(text, 18, 33)
  if last >= now then
    token, line = following(last), ttl .. ' ' .. now
  end
  write(key, 'A' .. sub(text, 2, 2) .. deadline() .. ' H' .. token .. ' ' .. id .. '\n' .. line .. '\n' .. ended .. ARGV[a + 3], token)
  if place ~= '' then redis.pcall('ZREM', KEYS[k + 2], id .. ' ' .. place) end
  return token
end
