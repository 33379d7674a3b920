-- undo (Redlock): name queue; id try step channel.
--
-- Takes the vote for an attempt back that has won no majority, unless a later
-- attempt has asked since. What an earlier attempt got stays, and what was confirmed or
-- renewed: it may be a lease that is held, or that somebody is about to win. But not if
-- step is not 0: that is by what the attempts of a process differ, whose earlier ones
-- are over then. The channel, if not empty, puts the claim back into the queue, which it
-- had left. Replies 0.

local function run(k, a)
  local key, id, try, step, channel = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 3]), ARGV[a + 4]
  local text = read(key)
  local r = open(text)
  if not r.held or r.id ~= id or r.promise ~= try then return 0 end
  local function ours(attempt) return attempt == try or step > 0 and (attempt - try) % step == 0 end
  if not ours(r.made) or r.won ~= '0' and (step == 0 or not ours(r.won)) then return 0 end
  if channel ~= '' and not hasEnded(r.ended, id) and pcall(enqueue, k, text, id, channel) and r.flag == '-' then r.flag = 'w' end
  local free = '1' .. r.flag .. NEVER .. ' F' .. r.last .. ' \n\n' .. r.ended
  if r.flag == 'm' then free = vacant(k, r.flag, r.last, r.ended) end
  call('SET', key, free, 'KEEPTTL')
  return 0
end
