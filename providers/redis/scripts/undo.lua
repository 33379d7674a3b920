-- undo (Redlock): lease fence queue; id try all channel.
--
-- Takes the vote for an attempt back that has won no majority, unless a later
-- attempt has asked since, or the claim was renewed. What an earlier attempt got
-- stays, and what was confirmed, unless all is "1": it may be a lease that is held. The
-- channel, if not empty, puts the claim back into the queue, which it had left. Replies 0.

local function run(k, a)
  local lease, fence, queue, id, try = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a + 1], ARGV[a + 2]
  local held = call('GET', lease)
  if not held then return 0 end
  local holder, _, _, promise, made, won, _, kept = open(held)
  if holder ~= id or promise ~= try or kept == '1' then return 0 end
  if ARGV[a + 3] ~= '1' and (made ~= try or won ~= '0') then return 0 end
  call('DEL', lease)
  local f = call('GET', fence) or '0 '
  if ARGV[a + 4] ~= '' and not ended(f, id) then enqueue(queue, id, ARGV[a + 4]) end
  if find(f, MISSED, 1, true) then call('SET', fence, reserve(f, wake(fence, queue)), 'KEEPTTL') end
  return 0
end
