-- What ends a lease remembers its ID and wakes the next waiter. Included where needed.

local REMEMBERED = 8 -- IDs per name
local GRACE = 200 -- ms for which a name is reserved for the waiter who was woken

-- tell tells a waiter when to ask (ms from now). It returns the waiter's ID, or nil
-- if nobody listens on its channel: then its process is gone. What fails here, for
-- want of rights say, must not fail the release that is half done: pcall.
local function tell(waiter, after, fence)
  local id, channel = match(waiter, '^(%S+) (.*)$')
  local heard = redis.pcall('PUBLISH', channel, id .. ' ' .. after .. ' ' .. fence)
  if type(heard) == 'number' and (heard > 0 or ARGV[1] == '1') then return id end
end

-- prepare tells waiters when it will be their turn if all before them hang: a
-- reservation each. A release stays cheap: it tells those of rank 0, 1, 2, 4, 8, 16, 32.
local function prepare(fence, queue)
  local rank = 0
  while rank <= 32 do
    local waiter = redis.pcall('ZRANGE', queue, rank, rank)[1]
    if not waiter then return end
    if tell(waiter, (rank + 1) * GRACE, fence) then
      rank = math.max(rank + 1, 2 * rank)
    elseif redis.pcall('ZREM', queue, waiter) ~= 1 then
      return
    end
  end
end

-- wake tells the first waiter that the name is free, and has others ready in case it
-- hangs. It returns the reservation for the first.
local function wake(fence, queue)
  while true do
    local head = redis.pcall('ZPOPMIN', queue)[1]
    if not head then return '' end
    local id = tell(head, 0, fence)
    if id then
      prepare(fence, queue)
      return '@' .. string.format('%.0f', nowMillis + GRACE) .. ':' .. id .. ' '
    end
  end
end

-- MISSED, in the place of a reservation, says that a wake-up is due: see missed.
local MISSED = '@0:* '

-- reserve puts a reservation in the place of the one before.
local function reserve(f, reservation)
  local at = find(f, '@', 1, true)
  if at then f = sub(f, 1, at - 1) end
  return f .. reservation
end

-- remember puts an ID, with a "!" if it was broken, before the others that ended.
local function remember(f, id)
  local space = find(f, ' ', 1, true)
  local rest = sub(f, space)
  if #rest > (REMEMBERED - 1) * (#id + 2) then
    local n, list = 1, ''
    for old in string.gmatch(rest, '%S+') do
      if n < REMEMBERED or sub(old, 1, 1) == '@' then list = list .. ' ' .. old end
      n = n + 1
    end
    rest = list .. ' '
  end
  return sub(f, 1, space) .. id .. rest
end

-- missed (Redlock): what ended was not known here, as on a node that had lost it, or
-- that had voted for somebody else meanwhile. Waiters may be here all the same: the
-- first is woken now, or when that vote is taken back.
local function missed(f, held, fence, queue)
  if held then return reserve(f, MISSED) end
  local till = match(f, '@(%d+):')
  if till and tonumber(till) > nowMillis then return f end
  return reserve(f, wake(fence, queue))
end
