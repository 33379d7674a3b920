-- How a node of Redlock keeps a claim's votes. Included where needed.
--
-- The claims of a name compete for the lease, and the attempts of one claim (it is
-- asked for again when a reply was lost, maybe by two callers at a time) must agree
-- on its token. The fourth line of a lease, five numbers, is for that:
--
--   promise  the latest attempt that has asked. Of earlier ones nothing is accepted.
--   made     the attempt that got the lease here.
--   won      0 while the token is the one that this node has made up, else the attempt
--            that has agreed on it with a majority. Also of a lease that was renewed.
--   before   the fence's token before the lease: a token not above it is not accepted.
--   kept     1 once a renewal has seen to it that the node has the right token.
--
-- Attempts are numbers, later ones higher, of which no two are alike.

local VOTED, OVERTAKEN = 10, 11

-- open returns ID, token, when acquired, the five numbers, and the lines after them.
local function open(held)
  return match(held, '^!?([^\n]*)\n(%d+)\n(%d+)\n(%d+) (%d+) (%d+) (%d+) (%d)\n(.*)$')
end

local function seal(id, token, at, promise, made, won, before, kept, tail)
  return id .. '\n' .. token .. '\n' .. at .. '\n' .. promise .. ' ' .. made .. ' ' .. won .. ' ' .. before .. ' ' .. kept .. '\n' .. tail
end
