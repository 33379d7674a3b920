-- A name's text in parts; and how a node of Redlock keeps a claim's votes. Included where
-- needed.
--
-- Four numbers behind the TTL and the time are for that:
--
--   promise  the latest attempt of the claim that has asked. Earlier ones change nothing.
--   made     the attempt that got the name here; 0 once the lease was renewed here.
--   before   the latest token before the lease: an earlier lease of the claim has none above it.
--   token    the claim's, which may be below the name's latest.
--
-- The attempts of a claim are numbers, later ones higher.

-- open takes a text apart.
local function open(text)
  local r = {}
  r.flag, r.till, r.state, r.last, r.id, r.ttl, r.at, r.promise, r.made, r.before, r.token, r.ended, r.content =
    match(text, '^A(.)(%d+) (%u)(%d+) ([^\n]*)\n(%d*) ?(%d*) ?(%d*) ?(%d*) ?(%d*) ?(%d*)\n([^\n]*)(.*)$')
  r.held = (r.state == 'H' or r.state == 'B') and r.till > nowMillis
  if r.token == '' then r.token = r.last end
  return r
end

-- seal puts the text of a name together again that somebody holds.
local function seal(r)
  local line = r.ttl
  if r.at ~= '' then line = line .. ' ' .. r.at end
  if r.promise ~= '' then
    line = line .. ' ' .. r.promise .. ' ' .. r.made .. ' ' .. r.before .. ' ' .. r.token
  end
  return 'A' .. r.flag .. r.till .. ' ' .. r.state .. r.last .. ' ' .. r.id .. '\n' .. line .. '\n' .. r.ended .. r.content
end
