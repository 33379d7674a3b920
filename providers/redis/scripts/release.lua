-- release: lease fence queue; id keep. Replies 0.

local function run(k, a)
  local lease, fence, id, keep = KEYS[k + 1], KEYS[k + 2], ARGV[a + 1], ARGV[a + 2]
  local held, known = call('GET', lease), call('GET', fence)
  local f = known or held and match(held, '\n(%d+)') .. ' ' or '0 ' -- somebody may have deleted it
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
    if known then
      call('SET', fence, f, 'KEEPTTL')
      return 0
    end
    local left = call('PTTL', lease)
    keep = (left < 0 or keep == '0') and '0' or string.format('%.0f', keep + left)
  end
  set(fence, f, keeping(tonumber(match(f, '^%d+')), keep))
  return 0
end
