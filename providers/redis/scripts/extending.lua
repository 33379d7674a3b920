-- How a renewal keeps the fence, and says why it can't. Included where needed.

-- extend keeps a fence with its lease. It is kept half as long again as it must
-- be, so that few renewals have to do it.
local function extend(fence, ttl, keep, head)
  local left, forever = call('PTTL', fence), ttl == '0' or keep == '0'
  if left == -2 then -- somebody has deleted it
    local token = match(head, '\n(%d+)\n')
    set(fence, token .. ' ', forever and '0' or keeping(tonumber(token), keep))
  elseif forever then
    if left >= 0 then call('PERSIST', fence) end
  elseif left < tonumber(keep) then -- also -1: it was to be kept for ever until now
    local token = tonumber(match(head, '\n(%d+)\n'))
    call('PEXPIRE', fence, keeping(token, string.format('%.0f', keep * 1.5)))
  end
end

-- why says how a claim that does not hold the name has ended.
local function why(held, f, id, token)
  if held then return sub(held, 1, #id + 2) == '!' .. id .. '\n' and 'broken' or 'taken' end
  if not f then return 'gone' end -- nothing is known of the name
  local over, broken = ended(f, id)
  if over then return broken and 'broken' or 'gone' end
  return tonumber(match(f, '^%d+')) > tonumber(token) and 'taken' or 'expired'
end
