-- release: name queue; digest id. Replies 0.

-- passed is the text after the release of a claim that does not hold the name. On a node of
-- Redlock it may be that this one had lost the lease, or has voted for somebody else since.
-- Waiters may be here all the same: the first is woken now, or when that vote is taken back.
local function passed(k, text, ended)
  local flag, till, head, state, token, rest = match(text, '^A(.)(%d+)( (%u)(%d+) [^\n]*\n[^\n]*\n)[^\n]*(.*)$')
  local taken = (state == 'H' or state == 'B') and till > nowMillis
  if firstKey == 1 and taken then
    flag = 'm'
  elseif firstKey == 1 and flag ~= '-' and not (state == 'R' and till > nowMillis) then
    return vacant(k, flag, token, ended), false
  end
  return 'A' .. flag .. till .. head .. ended .. rest, taken
end

local function run(k, a)
  local key, digest, id = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2]
  local text, state = read(key)
  local flag, token = sub(text, 2, 2), sub(text, 18, 33)
  if (state == 'H' or state == 'B') and find(text, id .. '\n', 35, true) == 35 then
    local from = find(text, '\n', 36 + #id, true) + 1
    local ended = sub(text, from, find(text, '\n', from, true) - 1)
    if not hasEnded(ended, digest) then ended = remember(ended, state == 'H' and ' ' or '!', digest) end
    write(key, vacant(k, flag, token, ended), token)
    return 0
  end
  local ended = match(text, '^[^\n]*\n[^\n]*\n([^\n]*)', 35)
  if hasEnded(ended, digest) then return 0 end
  local new, taken = passed(k, text, remember(ended, ' ', digest))
  if taken then -- the present holder's claim says how long to keep it
    call('SET', key, new, 'KEEPTTL')
  else
    write(key, new, token)
  end
  return 0
end
