-- The beginning of every script but admit.lua. Functions are made only when they are
-- needed: on a server that does little else, making them is a third of the time.
--
-- A call carries one operation or several, of any names, so that requests which
-- happen at the same time can share a round trip (group commit). All of its
-- operations are of one script. An operation that fails does not keep the others
-- from being done. Everything is written so that few commands and few strings
-- are made: a server is one thread, and this is what it spends its time on.
--
-- Keys of a name, all under one hash tag:
--
--   leasing:{name}        the lease, lines of text: ID, token, when acquired
--                         (microseconds), a line for Redlock (see ballot.lua), TTL (ms,
--                         0 if infinite), owner, metadata (JSON, or nothing). Of
--                         a broken one "!" before the ID, and two lines more: by whom
--                         and why. It is written with its expiry in one command, and exists exactly
--                         while the name is held.
--   leasing:{name}:fence  what outlives it: the latest token; the IDs that have ended,
--                         latest first, "id" released and "id!" broken; and "@until:id" if
--                         the name is reserved for a waiter, until then (ms). Words, each
--                         with a space behind it.
--   leasing:{name}:queue  sorted set of who waits: "id channel", by time of arrival.
--
-- Numbers: a token is below 2^53, so Lua's doubles hold it, but tostring would
-- write it with 14 digits only. It is written with %.0f, and returned as integer.
--
-- Time is the server's, and stands still while a script runs, for TIME and for the
-- expiry of keys (redis.io/docs/latest/develop/programmability/eval-intro).
--
-- ARGV[1] is "1" on a Cluster, where PUBLISH can't tell whether somebody listens.
-- ARGV[2] is for how long (ms) a server of Redlock, whose marker is KEYS[1], casts no
-- vote by the caller's count; else it is empty. Times to keep a key are ms, or "0" for ever.
--
-- The reply has an element for each operation: an integer if all went well, else a
-- list of a status and what belongs to it.

local HELD, FREE, RESERVED, ENDED, LOST, STALE, BROKEN, QUARANTINED, FAILED = 1, 2, 3, 4, 5, 6, 7, 8, 9

local call, sub, find, match = redis.call, string.sub, string.find, string.match

local t = redis.pcall('TIME')
if t.err then return redis.error_reply('NOPERM no right to time') end -- it can't fail otherwise
local now = t[1] * 1000000 + t[2]
local nowText = string.format('%.0f', now)
local nowMillis = math.floor(now / 1000)

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
    redis.pcall('SET', KEYS[1], string.format('%.0f', nowMillis + mute) .. rest)
  end
end
