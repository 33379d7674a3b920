-- How a renewal keeps the fence, and says why it can't. Included where needed.

-- extend keeps a fence with its lease. It is kept half as long again as it must
-- be, so that few renewals have to do it.
local function extend(fence, ttl, keep, head)
  if ttl == '0' or keep == '0' then
    call('PERSIST', fence)
    return
  end
  local left = call('PTTL', fence)
  if left >= 0 and left < tonumber(keep) then
    call('PEXPIRE', fence, string.format('%.0f', keep * 1.5))
  elseif left == -2 then -- somebody has deleted it
    set(fence, match(head, '\n(%d+)\n') .. ' ', keep)
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
