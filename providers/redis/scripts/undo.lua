-- undo (Redlock): lease fence queue; id try step channel.
--
-- Takes the vote for an attempt back that has won no majority, unless a later
-- attempt has asked since. What an earlier attempt got stays, and what was confirmed or
-- renewed: it may be a lease that is held, or that somebody is about to win. But not if
-- step is not 0: that is by what the attempts of a process differ, whose earlier ones
-- are over then. The channel, if not empty, puts the claim back into the queue, which it
-- had left. Replies 0.

local function run(k, a)
  local lease, fence, queue, id, try, step = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 3])
  local held, f = call('GET', lease), call('GET', fence) or '0 '
  if not held then return 0 end
  local holder, _, _, promise, made, won = open(held)
  if holder ~= id or promise ~= try then return 0 end
  local function ours(attempt) return attempt == try or step > 0 and (attempt - try) % step == 0 end
  if not ours(made) or won ~= '0' and (step == 0 or not ours(won)) then return 0 end
  call('DEL', lease)
  -- The undo is done, even if the rest fails: for want of memory, say.
  if ARGV[a + 4] ~= '' and not ended(f, id) then pcall(enqueue, queue, id, ARGV[a + 4]) end
  if find(f, MISSED, 1, true) then
    local ok, reservation = pcall(wake, fence, queue)
    if ok then redis.pcall('SET', fence, reserve(f, reservation), 'KEEPTTL') end
  end
  return 0
end
