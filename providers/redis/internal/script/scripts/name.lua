-- How a name is read and written.

local SEEN, ENDED, LOST, STALE, BROKEN, QUARANTINED, FAILED = 1, 2, 3, 4, 5, 6, 7
local NEVER, FOREVER, NONE = '0000000000000', '9999999999999', '0000000000000000'
local call, byte, sub, find, match = redis.call, string.byte, string.sub, string.find, string.match

-- OLDER has a function for the letter of each older version. It makes a text of this version, which
-- the next write stores. An older release refuses the new text, and writes nothing.
local OLDER = {}

-- read is the text of a name, and its state. Of the text it looks at the version, and at two
-- places that have a space.
local function read(key)
  local text = call('GET', key) or EMPTY
  local update = OLDER[sub(text, 1, 1)]
  if update then text = update(text) end
  if byte(text) ~= 65 or byte(text, 16) ~= 32 or byte(text, 34) ~= 32 then
    error({err = 'OTHERVERSION the key ' .. key .. ' is of another version of this library, or of another application'})
  end
  return text, sub(text, 17, 17)
end

-- tokenText is a number as a token is stored.
local function tokenText(token) return string.format('%016.0f', token) end

-- following is the token after another. None follows the last, 2^53-1.
local function following(token)
  if token + 1 >= 2^53 then
    error({err = 'NOTOKEN no fencing token is left after ' .. token .. ', which did not come from a clock: replace it with the latest token of a holder'})
  end
  return tokenText(token + 1)
end

-- write stores a text for some time (ms): until its latest token is in the past too, so
-- that the clock alone then makes the next token greater.
local function write(key, text, token, span)
  local keep = span or keep
  if keep == '0' then
    call('SET', key, text)
  elseif token <= past then
    call('SET', key, text, 'PX', keep)
  else
    call('SET', key, text, 'PX', string.format('%.0f', keep + math.ceil((token - now) / 1000)))
  end
end

-- deadline is the expiry of a lease that begins now. It has the started millisecond too.
local till = ttl == '0' and FOREVER
local function deadline()
  till = till or nowMillis + ttl + 1 .. ''
  return till
end

-- digest stands for an ID among those that ended.
local function digestOf(id) return sub(redis.sha1hex(id), 1, 14) end

-- remember puts an ID that ended, " " or "!" and its digest, before the others, of which there is
-- room for 7.
local function remember(ended, how, digest) return how .. digest .. sub(ended, 1, 105) end

-- hasEnded says whether an ID is among those that ended, and whether it was broken.
local function hasEnded(ended, digest)
  local at = find(ended, digest, 1, true)
  return at ~= nil, at and byte(ended, at - 1) == 33
end

-- withBroken adds an ID whose lease was broken.
local function withBroken(ended, id)
  local digest = digestOf(id)
  return hasEnded(ended, digest) and ended or remember(ended, '!', digest)
end
