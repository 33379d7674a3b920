-- A name's text in parts; and how a node of Redlock keeps a claim's votes. Included where
-- needed.
--
-- The claims of a name compete for it, and the attempts of one claim (it is asked for
-- again when a reply was lost, maybe by two callers at a time) must agree on its token.
-- Six numbers behind the TTL and the time are for that:
--
--   promise  the latest attempt that has asked. Of earlier ones nothing is accepted.
--   made     the attempt that got the name here.
--   won      0 while the token is the one that this node has made up, else the attempt
--            that has agreed on it with a majority. Also of a lease that was renewed.
--   before   the latest token before the lease: a token not above it is not accepted.
--   kept     1 once a renewal has seen to it that the node has the right token.
--   token    the claim's, which may be below the name's latest.
--
-- Attempts are numbers, later ones higher, of which no two are alike.

local VOTED, OVERTAKEN = 8, 9

-- open takes a text apart.
local function open(text)
  local r = {}
  r.flag, r.till, r.state, r.last, r.id, r.ttl, r.at, r.promise, r.made, r.won, r.before, r.kept, r.token, r.ended, r.content =
    match(text, '^1(.)(%d+) (%u)(%d+) ([^\n]*)\n(%d*) ?(%d*) ?(%d*) ?(%d*) ?(%d*) ?(%d*) ?(%d*) ?(%d*)\n([^\n]*)\n?(.*)$')
  r.held = (r.state == 'H' or r.state == 'B') and r.till > nowMillis
  if r.token == '' then r.token = r.last end
  return r
end

-- seal puts the text of a name together again that somebody holds.
local function seal(r)
  local line = r.ttl
  if r.at ~= '' then line = line .. ' ' .. r.at end
  if r.promise ~= '' then
    line = line .. ' ' .. r.promise .. ' ' .. r.made .. ' ' .. r.won .. ' ' .. r.before .. ' ' .. r.kept .. ' ' .. r.token
  end
  return '1' .. r.flag .. r.till .. ' ' .. r.state .. r.last .. ' ' .. r.id .. '\n' .. line .. '\n' .. r.ended .. '\n' .. r.content
end
