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

-- why says how a claim that does not hold the name under that token has ended; and of a
-- broken lease that runs out who broke it and why, a line each.
local function why(held, f, id, token)
  if held and sub(held, 1, #id + 2) == '!' .. id .. '\n' then return 'broken', match(held, '\n([^\n]*\n[^\n]*)$') end
  local over, broken = ended(f or '', id)
  if over then return broken and 'broken' or 'gone' end
  local last = tonumber(match(held or f or '0', held and '\n(%d+)' or '^%d+'))
  token = tonumber(token)
  if not last or last > token then return 'taken' end -- also by what is no lease
  if last < token or held then return 'gone' end -- what was granted is lost, or never was
  return 'expired'
end
