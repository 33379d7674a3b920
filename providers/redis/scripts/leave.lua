-- leave: lease fence queue; id channel. A waiter leaves the queue; if it was its
-- turn, it is the next one's. Replies 0.

local function run(k, a)
  local lease, fence, queue, id = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a + 1]
  call('ZREM', queue, id .. ' ' .. ARGV[a + 2])
  local f = call('GET', fence)
  if f and find(f, ':' .. id .. ' ', 1, true) then
    local free = call('EXISTS', lease) == 0
    call('SET', fence, reserve(f, free and wake(fence, queue) or ''), 'KEEPTTL')
  end
  return 0
end
