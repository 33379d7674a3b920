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
-- Where an acquire that is refused waits. The arguments of those who ask begin with
-- digest id content place; their keys are the name and the queue. The place is the channel and
-- the owner, a line each.

local QUEUED = 3600000 -- ms after which a queue that nobody touches is forgotten

-- enqueue has a claim wait, in the place that it has or else as the last, and says so in
-- the name. Without memory it gets no place, and asks again from time to time.
local function enqueue(k, text, id, place)
  local done = redis.pcall('ZADD', KEYS[k + 2], 'NX', now, id .. ' ' .. place)
  if type(done) == 'number' then
    call('PEXPIRE', KEYS[k + 2], QUEUED)
    if sub(text, 2, 2) == '-' then redis.pcall('SET', KEYS[k + 1], 'Aw' .. sub(text, 3), 'KEEPTTL') end
  elseif sub(done.err, 1, 4) ~= 'OOM ' then
    error(done)
  end
end

-- settled is the text of a name that is held. An expiry further away than the lease's TTL
-- was written before the clock was set back: its holder, who asked before now, trusts it
-- for one TTL from now at most.
local function settled(k, text)
  local ttl = match(text, '^[^\n]*\n(%d+)', 35)
  if not ttl or ttl == '0' then return text end
  local till = nowMillis + ttl + 1 .. ''
  if sub(text, 3, 15) <= till then return text end
  text = sub(text, 1, 2) .. till .. sub(text, 16)
  redis.pcall('SET', KEYS[k + 1], text, 'KEEPTTL')
  return text
end

-- refuse has the claim join the queue.
local function refuse(k, a, text, reply)
  if ARGV[a + 4] ~= '' then enqueue(k, text, ARGV[a + 2], ARGV[a + 4]) end
  return reply
end

-- reserved says whether a name that nobody holds is another claim's; not if the clock
-- was set back since.
local function reserved(text, id)
  if sub(text, 17, 17) ~= 'R' or sub(text, 35, 35 + #id) == id .. '\n' then return false end
  local left = sub(text, 3, 15) - nowMillis
  return left > 0 and left <= 60000
end
-- A name's text in parts; and how a node of Redlock keeps a claim's votes. Included where
-- needed.
--
-- Four numbers behind the TTL and the time are for that:
--
--   promise  the latest attempt of the claim that has asked. Earlier ones change nothing.
--   made     the attempt that got the name here; 0 once the lease was renewed here.
--   before   the latest token before the lease: an earlier lease of the claim has none above it.
--   token    the claim's, which may be below the name's latest.
--
-- The attempts of a claim are numbers, later ones higher.

-- open takes a text apart.
local function open(text)
  local r = {}
  r.flag, r.till, r.state, r.last, r.id, r.ttl, r.at, r.promise, r.made, r.before, r.token, r.ended, r.content =
    match(text, '^A(.)(%d+) (%u)(%d+) ([^\n]*)\n(%d*) ?(%d*) ?(%d*) ?(%d*) ?(%d*) ?(%d*)\n([^\n]*)(.*)$')
  r.held = (r.state == 'H' or r.state == 'B') and r.till > nowMillis
  if r.token == '' then r.token = r.last end
  return r
end

-- seal puts the text of a name together again that somebody holds.
local function seal(r)
  local line = r.ttl
  if r.at ~= '' then line = line .. ' ' .. r.at end
  if r.promise ~= '' then
    line = line .. ' ' .. r.promise .. ' ' .. r.made .. ' ' .. r.before .. ' ' .. r.token
  end
  return 'A' .. r.flag .. r.till .. ' ' .. r.state .. r.last .. ' ' .. r.id .. '\n' .. line .. '\n' .. r.ended .. r.content
end
-- vote (Redlock): name queue; digest id content place try floor.
--
-- An acquire at one node. floor is the token that the caller proposes, the latest clock of all
-- nodes as far as it knows: a node whose clock shows about the same makes it the token, so
-- that most often all nodes make the same one and need not be told which counts. Replies,
-- if the claim holds this node, with a text: token made before clock, and the
-- digest of the ID that was released here last. A node in quarantine tells that too.

local function voted(token, made, before, freed)
  return token .. ' ' .. made .. ' ' .. before .. ' ' .. now .. ' ' .. freed
end

local function lastReleased(ended) return byte(ended) == 32 and sub(ended, 2, 15) or '' end

-- again: the claim holds this node already. The lease is never shortened.
local function again(key, r, a)
  if r.state == 'B' then return {ENDED} end
  local try, till = ARGV[a + 5], deadline()
  if tonumber(try) > tonumber(r.promise) then r.promise = try end
  if till > r.till then
    r.ttl, r.till = ttl, till
    write(key, seal(r), r.last)
  else
    call('SET', key, seal(r), 'KEEPTTL')
  end
  return voted(r.token, r.made, r.before, '')
end

local function run(k, a)
  local key, digest, id, place, try, floor = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2], ARGV[a + 4], ARGV[a + 5], ARGV[a + 6]
  local text, ended = read(key)
  local state, last = sub(text, 17, 17), sub(text, 18, 33)
  if state == 'F' then
    ended = sub(text, 37)
  else
    local r = open(text)
    ended = r.ended
    if state == 'B' then ended = withBroken(ended, r.id) end
    if quarantine > 0 or hasEnded(ended, digest) then -- below
    elseif r.held and r.id == id then return again(key, r, a)
    elseif r.held or reserved(text, id) then
      text = settled(k, text)
      return refuse(k, a, text, {SEEN, text, now})
    end
  end
  if quarantine > 0 then return refuse(k, a, text, {QUARANTINED, quarantine, lastReleased(ended)}) end -- it wakes waiters all the same
  if hasEnded(ended, digest) then return {ENDED} end
  local token = math.abs(floor - now) > NEAR and now or floor
  if last == NONE and token < now then token = now end -- what was forgotten is in this clock's past
  if last >= token then token = following(last) end
  write(key, 'A' .. sub(text, 2, 2) .. deadline() .. ' H' .. token .. ' ' .. id .. '\n'
    .. ttl .. ' ' .. now .. ' ' .. try .. ' ' .. try .. ' ' .. last .. ' ' .. token .. '\n' .. ended .. ARGV[a + 3], token)
  if place ~= '' then redis.pcall('ZREM', KEYS[k + 2], id .. ' ' .. place) end
  return voted(token, try, last, lastReleased(ended))
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
-- and the a-th argument, 2 and 6 of them.
local replies, n, k, a, last, head, line = {}, 0, firstKey, 4, #ARGV
while a < last do
  local reply

  -- A claim that does not wait asks a node that is free, which knows the name, takes the token that is proposed, and has nothing
  -- in it that looks like its ID. This does what vote.lua would.
  local key, id, try, token = KEYS[k + 1], ARGV[a + 2], ARGV[a + 5], ARGV[a + 6]
  local text = redis.pcall('GET', key) or EMPTY
  if not text.err and byte(text) == 65 and byte(text, 17) == 70 and byte(text, 18) ~= 48 and byte(text, 34) == 32 -- "A", "F", not "0", " "
    and keep ~= '0' and quarantine == 0 and ARGV[a + 4] == '' and math.abs(token - now) <= NEAR and not find(text, ARGV[a + 1], 37, true) then
    local last = sub(text, 18, 33)
    if last < token then
      head, line = head or nowMillis + ttl + 1 .. ' H', line or '\n' .. ttl .. ' ' .. now .. ' '
      local done = redis.pcall('SET', key, 'A' .. sub(text, 2, 2) .. head .. token .. ' ' .. id .. line .. try .. ' ' .. try .. ' ' .. last .. ' ' .. token
        .. '\n' .. sub(text, 37) .. ARGV[a + 3], 'PX', keep)
      if not done.err then reply = token .. ' ' .. try .. ' ' .. last .. ' ' .. now .. ' ' .. (byte(text, 37) == 32 and sub(text, 38, 51) or '') end
    end
  end
  n = n + 1
  replies[n] = reply or complete(k, a)
  k, a = k + 2, a + 6
end
return replies
