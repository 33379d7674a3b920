-- Where an acquire that is refused waits, and for whom a name is reserved. Included
-- where needed; the arguments of those who ask begin with id ttl keep tail channel.

local QUEUED = 3600000 -- ms after which a queue that nobody touches is forgotten

-- enqueue has a claim wait, in the place that it has or else as the last. Without
-- memory it gets no place, and asks again from time to time.
local function enqueue(queue, id, channel)
  local done = redis.pcall('ZADD', queue, 'NX', nowText, id .. ' ' .. channel)
  if type(done) == 'number' then
    call('PEXPIRE', queue, QUEUED)
  elseif sub(done.err, 1, 4) ~= 'OOM ' then
    error(done)
  end
end

-- refuse has the claim join the queue.
local function refuse(a, queue, reply)
  if ARGV[a + 5] ~= '' then enqueue(queue, ARGV[a + 1], ARGV[a + 5]) end
  return reply
end

-- turn says for how long (ms) the name is reserved for another claim, 0 if it is
-- not; and what to keep of the words behind the token when it is granted.
local function turn(rest, id)
  local reserved = find(rest, '@', 1, true)
  if not reserved then return 0, rest end
  local till, waiter = match(rest, '@(%d+):(%S+) ')
  local left = till - nowMillis
  if waiter ~= id and left > 0 and left <= 60000 then return left end -- not if the clock was set back
  return 0, sub(rest, 1, reserved - 1)
end
