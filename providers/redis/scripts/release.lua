-- release: name queue; id keep. Replies 0.

-- passed is the text after the release of a claim that does not hold the name. On a node of
-- Redlock it may be that this one had lost the lease, or has voted for somebody else since.
-- Waiters may be here all the same: the first is woken now, or when that vote is taken back.
local function passed(k, text, ended)
  local flag, state, token, holder, rest = sub(text, 2, 2), match(text, '^(%u)(%d+) ([^\n]*)\n[^\n]*\n(.*)$', 17)
  local till = sub(text, 3, 15)
  local taken = (state == 'H' or state == 'B') and till > nowMillis
  if firstKey == 1 and taken then
    flag = 'm'
  elseif firstKey == 1 and flag ~= '-' and not (state == 'R' and till > nowMillis) then
    return vacant(k, flag, token, ended), false
  end
  return '1' .. flag .. till .. ' ' .. state .. token .. ' ' .. holder .. '\n' .. ended .. '\n' .. rest, taken
end

local function run(k, a)
  local key, id, keep = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2]
  local text = read(key)
  local state, line = sub(text, 17, 17), id .. '\n'
  if (state == 'H' or state == 'B') and sub(text, 35, 34 + #line) == line then
    local ended = match(text, '^[^\n]*', 35 + #line)
    if state == 'H' then
      ended = remember(ended, id)
    elseif not hasEnded(ended, id) then
      ended = remember(ended, id .. '!')
    end
    write(key, vacant(k, sub(text, 2, 2), sub(text, 18, 33), ended), keep)
    return 0
  end
  local ended = match(text, '\n([^\n]*)', 35)
  if hasEnded(ended, id) then return 0 end
  local new, taken = passed(k, text, remember(ended, id))
  if taken then -- the present holder's claim says how long to keep it
    call('SET', key, new, 'KEEPTTL')
  else
    write(key, new, keep)
  end
  return 0
end
