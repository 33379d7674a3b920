-- How a name is read and written.

-- read is the text of a name, and its state. Of the text it looks at the version, and at two
-- places that have a space.
local function read(key)
  local text = call('GET', key) or EMPTY
  if byte(text) ~= 49 or byte(text, 16) ~= 32 or byte(text, 34) ~= 32 then
    error({err = 'OTHERVERSION the key ' .. key .. ' is of another version of this library, or of somebody else'})
  end
  return text, sub(text, 17, 17)
end

-- tokenText is a number as a token is stored.
local function tokenText(token) return string.format('%016.0f', token) end

-- write stores a text for some time (ms): until its latest token is in the past too, so
-- that the clock alone then makes the next token greater.
local function write(key, text, token, keep)
  if keep == '0' then
    call('SET', key, text)
  elseif token <= now then
    call('SET', key, text, 'PX', keep)
  else
    call('SET', key, text, 'PX', string.format('%.0f', keep + math.ceil((token - now) / 1000)))
  end
end

-- deadline is the expiry of a lease that begins now. It has the started millisecond too.
local lastTTL, lastTill = '0', FOREVER -- most operations of a call have one TTL
local function deadline(ttl)
  if ttl ~= lastTTL then lastTTL, lastTill = ttl, nowMillis + ttl + 1 .. '' end
  return lastTill
end

-- hasEnded says whether an ID is among those that ended, and whether it was broken.
local function hasEnded(ended, id)
  if not find(ended, id, 1, true) then return false, false end
  if find(ended, ' ' .. id .. '! ', 1, true) then return true, true end
  return find(ended, ' ' .. id .. ' ', 1, true) ~= nil, false
end
