#!lua flags=allow-oom
-- The beginning of every script but admit.lua.
--
-- A call carries one operation or several, of any names, so that requests which happen
-- at the same time can share a round trip (group commit). All of its operations are of
-- one script, one TTL and one time to keep names. One that fails does not keep the others from
-- being done. A server is one thread, and commands, functions and strings are what it spends its
-- time on: of each string that Lua makes it hashes every byte.
--
-- A name is one key, and a text of lines:
--
--   1  version, flag, expiry, space, state, latest token, space, ID
--   2  of a name that somebody holds or held the last: TTL (ms, 0 if infinite); when acquired
--      (microseconds), if that is not what the token says; of Redlock four numbers more, see
--      ballot.lua
--   3  IDs that have ended, the latest first, in 15 characters each: " " released or "!" broken,
--      and 14 digits of SHA-1. One claim in 10^16 meets the digits of another.
--   4  and 5, where there is a line 2: owner; metadata, JSON or nothing
--   6  and 7, of a broken lease: by whom, and why
--
-- Line 1 has fixed places. The version is a letter, "A" for version 1, that of release 0.1.0:
-- texts of before had a digit. The flag is "-", or "w" if somebody may
-- wait in the queue, or "m" (Redlock) if a wake-up was missed. The expiry is the server's clock
-- in ms, 13 digits, or FOREVER; the token has 16. The state is "H" held, "B" broken
-- and running out, "R" reserved until the expiry for the waiter ID, "F" free. With H and B
-- the name is held while the expiry is ahead of the clock; an ID stays after that.
-- The key itself expires once nothing in it matters any more.
--
-- Who waits is in a second key, under the same hash tag: a sorted set of "id channel" and, in a
-- second line, the owner, by time of arrival. The one for whom the name is reserved is no more in
-- it: that time and the owner follow the IDs that ended.
--
-- Numbers: a token is below 2^53, so Lua's doubles hold it. Texts of as many digits
-- compare as numbers do.
--
-- Time is the server's, and stands still while a script runs
-- (redis.io/docs/latest/develop/programmability/eval-intro).
--
-- ARGV[1] is "1" on a Cluster, where PUBLISH can't tell whether somebody listens.
-- ARGV[2] is for how long (ms) a server of Redlock, whose marker is KEYS[1], casts no
-- vote by the caller's count; else it is empty. ARGV[3] and ARGV[4] are what all operations of
-- a call have in common: their TTL (ms, 0 if infinite), and for how long to keep the key (ms, 0 for ever).
--
-- The reply has an element for each operation: an integer if all went well, else a
-- list of a status and what belongs to it.

local call, byte, sub, find = redis.call, string.byte, string.sub, string.find
local NEAR = 100000 -- microseconds by which a token that the caller of a vote proposes may be off the clock
local EMPTY = 'Aw0000000000000 F0000000000000000 \n\n' -- a name that is not known; there may be a queue

local t = redis.pcall('TIME')
if t.err then return redis.error_reply('NOPERM no right to time') end -- it can't fail otherwise
local now = t[1] .. (#t[2] == 6 and t[2] or sub('00000' .. t[2], -6)) -- microseconds
local nowMillis, ttl, keep = sub(now, 1, 13), ARGV[3], ARGV[4]
local past = now -- the latest token that is in the past when a key has expired that is kept from now on
if #now ~= 16 or now >= '9007199254740991' then return redis.error_reply('NOCLOCK the clock shows a time before September 2001 or after June 2255') end

-- A server of Redlock that has lost its data, or some of it, may have held leases that
-- it knows no more of, so its answer must not count until the longest has run out: the
-- quarantine, which admit.lua begins.
local quarantine, firstKey = 0, 0
if ARGV[2] ~= '' then
  firstKey = 1
  past = nowMillis + NEAR / 1000 .. ''
  if keep ~= '0' then keep = keep + NEAR / 1000 .. '' end -- tokens may be ahead of this server's clock
  local marker = call('GET', KEYS[1])
  if not marker then return redis.error_reply('UNMARKED the server has lost its data') end
  local till, rest = string.match(marker, '^(%d+)(.*)$')
  quarantine = math.max(0, till - nowMillis)
  if quarantine < tonumber(ARGV[2]) and till ~= '0' then -- this server's clock was set forward
    quarantine = tonumber(ARGV[2])
    redis.pcall('SET', KEYS[1], nowMillis + quarantine .. rest)
  end
end
-- The commonest case of this script is in the loop at its end, a quick_*.lua. The rest is made
-- when it is needed first: a function, and a variable that it has from outside, is an allocation.
local whole
local function complete(k, a)
if whole then return whole(k, a) end
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
-- How a name becomes free, and the next waiter is woken. Included where needed.

local GRACE = 200 -- ms for which a name is reserved for the waiter who was woken

-- tell tells a waiter when to ask (ms from now). It returns the waiter's ID and owner, or nil
-- if nobody listens on its channel: then its process is gone. What fails here, for
-- want of rights say, must not fail the release: pcall.
local function tell(waiter, after, key)
  local id, channel, owner = match(waiter, '^(%S+) ([^\n]*)\n?(.*)$')
  local heard = redis.pcall('PUBLISH', channel, id .. ' ' .. after .. ' ' .. key .. '\n' .. owner)
  if type(heard) == 'number' and (heard > 0 or ARGV[1] == '1') then return id, owner end
end

-- prepare tells waiters when it will be their turn if all before them hang: a
-- reservation each. The first asks after so long, and the others from another time on (ms).
-- A release stays cheap: it tells those of rank 0, 1, 2, 4, 8, 16, 32.
-- It returns the flag of the name.
local function prepare(key, queue, first, from)
  local rank = 0
  while rank <= 32 do
    local found = redis.pcall('ZRANGE', queue, rank, rank)
    local waiter = found[1]
    if not waiter then return (rank > 0 or found.err) and 'w' or '-' end
    if tell(waiter, rank == 0 and first or from + rank * GRACE, key) then
      rank = math.max(rank + 1, 2 * rank)
    elseif redis.pcall('ZREM', queue, waiter) ~= 1 then
      return 'w'
    end
  end
  return 'w'
end

-- vacant is the text of a name that nobody holds. It is reserved for the first of those
-- who wait, if the flag says that somebody may: that one is told, and others are
-- prepared in case it hangs.
local function vacant(k, flag, token, ended)
  local key, queue = KEYS[k + 1], KEYS[k + 2]
  local id, owner, since
  while flag ~= '-' and not id do
    local popped = redis.pcall('ZPOPMIN', queue)
    if popped.err then break end -- others may have the right
    if popped[1] then
      since, id, owner = popped[2], tell(popped[1], 0, key)
    else
      flag = '-'
    end
  end
  if not id then return 'A' .. flag .. NEVER .. ' F' .. token .. ' \n\n' .. ended end
  return 'A' .. prepare(key, queue, GRACE, GRACE) .. nowMillis + GRACE .. ' R' .. token .. ' ' .. id .. '\n\n' .. ended .. '\n' .. since .. ' ' .. owner
end
-- release: name queue; digest id. Replies 0.

-- passed is the text after the release of a claim that does not hold the name. On a node of
-- Redlock it may be that this one had lost the lease, or has voted for somebody else since.
-- Waiters may be here all the same: the first is woken now, or when that vote is taken back.
local function passed(k, text, ended)
  local flag, till, head, state, token, rest = match(text, '^A(.)(%d+)( (%u)(%d+) [^\n]*\n[^\n]*\n)[^\n]*(.*)$')
  local taken = (state == 'H' or state == 'B') and till > nowMillis
  if firstKey == 1 and taken then
    flag = 'm'
  elseif firstKey == 1 and flag ~= '-' and not (state == 'R' and till > nowMillis) then
    return vacant(k, flag, token, ended), false
  end
  return 'A' .. flag .. till .. head .. ended .. rest, taken
end

local function run(k, a)
  local key, digest, id = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2]
  local text, state = read(key)
  local flag, token = sub(text, 2, 2), sub(text, 18, 33)
  if (state == 'H' or state == 'B') and find(text, id .. '\n', 35, true) == 35 then
    local from = find(text, '\n', 36 + #id, true) + 1
    local ended = sub(text, from, find(text, '\n', from, true) - 1)
    if not hasEnded(ended, digest) then ended = remember(ended, state == 'H' and ' ' or '!', digest) end
    write(key, vacant(k, flag, token, ended), token)
    return 0
  end
  local ended = match(text, '^[^\n]*\n[^\n]*\n([^\n]*)', 35)
  if hasEnded(ended, digest) then return 0 end
  local new, taken = passed(k, text, remember(ended, ' ', digest))
  if taken then -- the present holder's claim says how long to keep it
    call('SET', key, new, 'KEEPTTL')
  else
    write(key, new, token)
  end
  return 0
end
-- Errors of a server that can't be used, and so of every operation. One that stops the first of a call is the whole call's, since
-- nothing was done: the client library sees it then, and may leave the server.
local UNUSABLE = {CLUSTERDOWN = true, LOADING = true, MASTERDOWN = true, MISCONF = true, NOREPLICAS = true, READONLY = true}

-- complete runs an operation. One that fails does not end the others.
local function complete(k, a)
  local ok, reply = pcall(run, k, a)
  if ok then return reply end
  -- The error of an operation begins with its code. Of a right that is missing in a
  -- script Redis 7.0 says no more than ERR, so that is asked for.
  local reason = type(reply) == 'table' and reply.err or tostring(reply)
  for _, command in ipairs(sub(reason, 1, 4) == 'ERR ' and redis.acl_check_cmd and {'get', 'set', 'zadd', 'pexpire', 'zrem'} or {}) do
    for i = k + 1, k + 2 do
      if not redis.acl_check_cmd(command, KEYS[i]) then reason = 'NOPERM no right to ' .. command end
    end
  end
  if a == 4 and UNUSABLE[match(reason, '^%u*')] then error({err = reason}) end
  return {FAILED, reason}
end
whole = complete
return complete(k, a)
end
-- The end of every script but admit.lua. An operation's keys and arguments follow the k-th key
-- and the a-th argument, 2 and 2 of them.
local replies, n, k, a, last, head, line = {}, 0, firstKey, 4, #ARGV
while a < last do
  local reply

  -- The holder releases a name for which nobody waits. This writes what release.lua would.
  local key, id = KEYS[k + 1], ARGV[a + 2]
  local text = redis.pcall('GET', key) or EMPTY
  if not text.err and byte(text) == 65 and byte(text, 2) == 45 and byte(text, 17) == 72 and sub(text, 18, 33) <= past -- "A", "-", "H"
    and keep ~= '0' and find(text, id, 35, true) == 35 and byte(text, 35 + #id) == 10 then
    local from = find(text, '\n', 36 + #id, true) + 1
    local to = math.min(find(text, '\n', from, true) - 1, from + 104)
    local done = redis.pcall('SET', key, 'A-0000000000000 F' .. sub(text, 18, 34) .. '\n\n ' .. ARGV[a + 1] .. sub(text, from, to), 'PX', keep)
    if not done.err then reply = 0 end
  end
  n = n + 1
  replies[n] = reply or complete(k, a)
  k, a = k + 2, a + 2
end
return replies
