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
