return run
end

-- The holder releases a name for which nobody waits. All else is for the rest.
local whole
local function run(k, a)
  local key, id, keep = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2]
  local text = call('GET', key) or EMPTY
  local token = sub(text, 18, 33)
  if byte(text) == 49 and byte(text, 2) == 45 and byte(text, 17) == 72 and token <= now and keep ~= '0' -- "1", "-", "H"
    and find(text, id .. '\n', 35, true) == 35 then
    local from = find(text, '\n', 36 + #id, true) + 1
    local ended = sub(text, from, find(text, '\n', from, true) - 1)
    call('SET', key, '1-' .. NEVER .. ' F' .. token .. ' \n\n' .. remember(ended, id), 'PX', keep)
    return 0
  end
  whole = whole or rest()
  return whole(k, a)
end
