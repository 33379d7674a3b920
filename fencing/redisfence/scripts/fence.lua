-- The check of a fencing token, and what it guards, as one script: Redis runs
-- a script as a whole, so no larger token gets in between.
--
-- In front of this stands "local body = function(KEYS, ARGV) ... end", which
-- holds what is guarded. It sees its own keys and arguments only.
--
--   KEYS[1]  where the highest token seen is kept: a string, or a hash
--   KEYS[2+] the body's
--   ARGV[1]  the token shown: decimal digits, checked by the caller
--   ARGV[2]  the field of the hash; '' if KEYS[1] is a string
--   ARGV[3]  milliseconds after which an idle KEYS[1] is forgotten; '0' never
--   ARGV[4+] the body's
--
-- Returns {seen} if the token is stale, {''} if what is kept there is no token,
-- and {token, result of the body} otherwise, which is {token} where the body
-- returns nil: lists of Lua end there.

local fence, token, field, retention = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local seen
if field == '' then
  seen = redis.pcall('GET', fence)
else
  seen = redis.pcall('HGET', fence, field)
end
if type(seen) == 'table' then
  if string.find(seen.err, '^WRONGTYPE') then return {''} end
  return seen
end

-- Tokens are kept and returned as the digits that came in. As numbers they are
-- only compared, which is exact below 2^53; Lua's tostring writes 14 digits.
local shown, highest = tonumber(token), 0
if seen then
  if string.find(seen, '^[1-9]%d*$') == nil or tonumber(seen) > 9007199254740991 then
    return {''}
  end
  highest = tonumber(seen)
end

if shown > highest then
  if field == '' then
    redis.call('SET', fence, token)
  else
    redis.call('HSET', fence, field, token)
  end
end
if retention ~= '0' then
  -- A stale token refreshes it as well: whoever sent it may send more.
  redis.call('PEXPIRE', fence, retention)
end
if shown < highest then
  return {seen}
end

local keys, args = {}, {}
for i = 2, #KEYS do keys[i - 1] = KEYS[i] end
for i = 4, #ARGV do args[i - 3] = ARGV[i] end
local result = body(keys, args)
if type(result) == 'table' and result.err then
  return result -- an error of its own, not an element of a list
end
return {token, result}
