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
