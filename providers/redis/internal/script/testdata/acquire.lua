-- The beginning of every script but admit.lua.
--
-- A call carries one operation or several, of any names, so that requests which happen
-- at the same time can share a round trip (group commit). All of its operations are of
-- one script. One that fails does not keep the others from being done. A server is one
-- thread, and few commands, functions and strings are what it spends its time on.
--
-- A name is one key, and a text of lines:
--
--   1  version, flag, expiry, space, state, latest token, space, ID
--   2  of a name that somebody holds or held the last: TTL (ms, 0 if infinite); when acquired
--      (microseconds), if that is not what the token says; of Redlock four numbers more, see
--      ballot.lua
--   3  IDs that have ended, the latest first: "id" released, "id!" broken; a space before
--      and behind each
--   4  and 5, where there is a line 2: owner; metadata, JSON or nothing
--   6  and 7, of a broken lease: by whom, and why
--
-- Line 1 has fixed places. The version is 1. The flag is "-", or "w" if somebody may
-- wait in the queue, or "m" (Redlock) if a wake-up was missed. The expiry is the server's clock
-- in ms, 13 digits, or FOREVER; the token has 16. The state is "H" held, "B" broken
-- and running out, "R" reserved until the expiry for the waiter ID, "F" free. With H and B
-- the name is held while the expiry is ahead of the clock; an ID stays after that.
-- The key itself expires once nothing in it matters any more.
--
-- Who waits is in a second key, under the same hash tag: a sorted set of "id channel", by
-- time of arrival.
--
-- Numbers: a token is below 2^53, so Lua's doubles hold it. Texts of as many digits
-- compare as numbers do.
--
-- Time is the server's, and stands still while a script runs
-- (redis.io/docs/latest/develop/programmability/eval-intro).
--
-- ARGV[1] is "1" on a Cluster, where PUBLISH can't tell whether somebody listens.
-- ARGV[2] is for how long (ms) a server of Redlock, whose marker is KEYS[1], casts no
-- vote by the caller's count; else it is empty. Times to keep a key are ms, or "0" for ever.
--
-- The reply has an element for each operation: an integer if all went well, else a
-- list of a status and what belongs to it.

local SEEN, ENDED, LOST, STALE, BROKEN, QUARANTINED, FAILED = 1, 2, 3, 4, 5, 6, 7
local NEVER, FOREVER, NONE = '0000000000000', '9999999999999', '0000000000000000'
local EMPTY = '1w' .. NEVER .. ' F' .. NONE .. ' \n\n ' -- of a name that is not known; there may be a queue

local call, byte, sub, find, match = redis.call, string.byte, string.sub, string.find, string.match

local t = redis.pcall('TIME')
if t.err then return redis.error_reply('NOPERM no right to time') end -- it can't fail otherwise
local now = t[1] .. sub('00000' .. t[2], -6) -- microseconds
local nowMillis = sub(now, 1, 13)
if #now ~= 16 then return redis.error_reply('NOCLOCK the clock shows a time before September 2001') end

-- remember puts an ID, with a "!" if it was broken, before the others that ended, of which
-- there is room for 7.
local function remember(ended, id)
  local last = 1
  for _ = 1, 7 do last = last and find(ended, ' ', last + 1, true) end
  return ' ' .. id .. (last and sub(ended, 1, last) or ended)
end

-- A server of Redlock that has lost its data, or some of it, may have held leases that
-- it knows no more of, so its answer must not count until the longest has run out: the
-- quarantine, which admit.lua begins.
local mute, firstKey = 0, 0
if ARGV[2] ~= '' then
  firstKey = 1
  local marker = call('GET', KEYS[1])
  if not marker then return redis.error_reply('UNMARKED the server has lost its data') end
  local till, rest = match(marker, '^(%d+)(.*)$')
  mute = math.max(0, till - nowMillis)
  if mute < tonumber(ARGV[2]) and till ~= '0' then -- this server's clock was set forward
    mute = tonumber(ARGV[2])
    redis.pcall('SET', KEYS[1], nowMillis + mute .. rest)
  end
end
-- Where a quick_*.lua has what is needed most, the rest is made when it is needed first: a server
-- would else spend a fifth of a call on making functions that nobody calls.
local function rest()
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
-- Where an acquire that is refused waits. The arguments of those who ask begin with
-- id ttl keep content channel; their keys are the name and the queue.

local QUEUED = 3600000 -- ms after which a queue that nobody touches is forgotten

-- enqueue has a claim wait, in the place that it has or else as the last, and says so in
-- the name. Without memory it gets no place, and asks again from time to time.
local function enqueue(k, text, id, channel)
  local done = redis.pcall('ZADD', KEYS[k + 2], 'NX', now, id .. ' ' .. channel)
  if type(done) == 'number' then
    call('PEXPIRE', KEYS[k + 2], QUEUED)
    if sub(text, 2, 2) == '-' then redis.pcall('SET', KEYS[k + 1], '1w' .. sub(text, 3), 'KEEPTTL') end
  elseif sub(done.err, 1, 4) ~= 'OOM ' then
    error(done)
  end
end

-- settled is the text of a name that is held. An expiry further away than the lease's TTL
-- was written before the clock was set back: its holder, who asked before now, trusts it
-- for one TTL from now at most.
local function settled(k, text)
  local ttl = match(text, '^[^\n]*\n(%d+)', 35)
  if not ttl or ttl == '0' or sub(text, 3, 15) <= deadline(ttl) then return text end
  text = sub(text, 1, 2) .. deadline(ttl) .. sub(text, 16)
  redis.pcall('SET', KEYS[k + 1], text, 'KEEPTTL')
  return text
end

-- refuse has the claim join the queue.
local function refuse(k, a, text, reply)
  if ARGV[a + 5] ~= '' then enqueue(k, text, ARGV[a + 1], ARGV[a + 5]) end
  return reply
end

-- reserved says whether a name that nobody holds is another claim's; not if the clock
-- was set back since.
local function reserved(text, id)
  if sub(text, 17, 17) ~= 'R' or sub(text, 35, 35 + #id) == id .. '\n' then return false end
  local left = sub(text, 3, 15) - nowMillis
  return left > 0 and left <= 60000
end
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
return run
end

-- A claim that does not wait acquires a name that is free, whose latest token is in the past and
-- in which nothing looks like its ID. All else is for the rest.
local whole
local function run(k, a)
  local key, id, ttl, keep = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
  local text = call('GET', key) or EMPTY
  if byte(text) == 49 and byte(text, 17) == 70 and byte(text, 34) == 32 and sub(text, 18, 33) < now -- "1", "F", " "
    and keep ~= '0' and ARGV[a + 5] == '' and not find(text, id, 35, true) then
    call('SET', key, '1' .. sub(text, 2, 2) .. nowMillis + ttl + 1 .. ' H' .. now .. ' ' .. id .. '\n' .. ttl .. '\n' .. sub(text, 37) .. '\n' .. ARGV[a + 4], 'PX', keep)
    return now
  end
  whole = whole or rest()
  return whole(k, a)
end
local KEYS_EACH, ARGS_EACH = 2, 5
-- The end of every script but admit.lua. An operation's keys and arguments follow the
-- k-th key and the a-th argument, KEYS_EACH and ARGS_EACH of them.

local replies, k, a = {}, firstKey, 2
while a < #ARGV do
  local ok, reply = pcall(run, k, a)
  if not ok then
    -- The error of an operation begins with its code. Of a right that is missing in a
    -- script Redis 7.0 says no more than ERR, so that is asked for.
    local reason = type(reply) == 'table' and reply.err or tostring(reply)
    for _, command in ipairs(sub(reason, 1, 4) == 'ERR ' and redis.acl_check_cmd and {'get', 'set', 'zadd', 'pexpire', 'zrem'} or {}) do
      for i = k + 1, k + KEYS_EACH do
        if not redis.acl_check_cmd(command, KEYS[i]) then reason = 'NOPERM no right to ' .. command end
      end
    end
    reply = {FAILED, reason}
  end
  replies[#replies + 1] = reply
  k, a = k + KEYS_EACH, a + ARGS_EACH
end
return replies
