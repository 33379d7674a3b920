-- leave: name queue; id place. A waiter leaves the queue; if it was its turn, it is the
-- next one's. Replies 0.

local function run(k, a)
  local key, id = KEYS[k + 1], ARGV[a + 1]
  call('ZREM', KEYS[k + 2], id .. ' ' .. ARGV[a + 2])
  local text = read(key)
  if sub(text, 17, 17) == 'R' and sub(text, 35, 35 + #id) == id .. '\n' then
    call('SET', key, vacant(k, sub(text, 2, 2), sub(text, 18, 33), match(text, '^[^\n]*', 37 + #id)), 'KEEPTTL')
  end
  return 0
end
