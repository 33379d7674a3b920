-- release: lease fence queue; id keep. Replies 0.

local KEYS_EACH, ARGS_EACH = 3, 2

local function run(k, a)
  local lease, fence, id = KEYS[k + 1], KEYS[k + 2], ARGV[a + 1]
  local held, f = call('GET', lease), call('GET', fence) or '0 '
  local line = id .. '\n'
  local ours = held and (sub(held, 1, #line) == line or sub(held, 1, #line + 1) == '!' .. line)
  local first = not ended(f, id)
  if first then f = remember(f, id) end
  if ours then
    call('DEL', lease)
    f = reserve(f, wake(fence, KEYS[k + 3]))
  elseif first and firstKey == 1 then
    f = missed(f, held, fence, KEYS[k + 3])
  end
  if held and not ours then -- the present holder's claim says how long to keep it
    call('SET', fence, f, 'KEEPTTL')
  else
    set(fence, f, keeping(tonumber(match(f, '^%d+')), ARGV[a + 2]))
  end
  return 0
end
