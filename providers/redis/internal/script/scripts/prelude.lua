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
