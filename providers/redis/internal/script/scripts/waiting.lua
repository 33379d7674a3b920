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
