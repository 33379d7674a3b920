-- relock (Redlock): name; head ttl keep content try metadata.
--
-- A renewal on a node that may have lost the lease, or never had it. Unless content is
-- empty the token is known to be the claim's, and it takes the node again if that has
-- granted the name to nobody since, so that its latest token is no newer than ours; but not
-- after the release, which the node remembers. The metadata, unless empty, replace what
-- is stored. Replies 0, or why the claim is lost here: broken, taken, gone, expired; or,
-- where the node alone can't tell, newer or older, as its token is.

-- hold renews what the claim holds here. The first renewal makes sure that the node
-- has the token that the majority agreed on.
local function hold(key, r, token, a)
  local settled = r.won ~= '0' or r.kept == '1'
  if r.token ~= token and ARGV[a + 4] == '' then
    if r.token > token then return {LOST, settled and 'taken' or 'newer'} end
    return {LOST, settled and 'gone' or 'older'}
  end
  r.ttl, r.till = ARGV[a + 2], deadline(ARGV[a + 2])
  if ARGV[a + 6] ~= '' then r.content = match(r.content, '^[^\n]*\n') .. ARGV[a + 6] end
  if r.token ~= token or r.kept ~= '1' then
    r.token, r.won, r.kept = token, r.promise, '1'
    if r.last < token then r.last = token end
  end
  write(key, seal(r), r.last, ARGV[a + 3])
  return 0
end

-- lost is why the claim does not hold the node.
local function lost(r, id, token)
  if r.state == 'B' and r.id == id then return 'broken', match(r.content, '\n([^\n]*\n[^\n]*)$') end
  local over, broken = hasEnded(r.ended, id)
  if over then return broken and 'broken' or 'gone' end
  if r.held then return r.token > token and 'taken' or 'gone' end
  if r.last > token then return 'newer' end -- somebody got this node, maybe no other
  if r.last == token then return 'expired' end
  return (r.last ~= NONE or r.ended ~= ' ') and 'older' or 'gone'
end

local function run(k, a)
  if mute > 0 then return {QUARANTINED, mute} end
  local key, ttl, content, try = KEYS[k + 1], ARGV[a + 2], ARGV[a + 4], ARGV[a + 5]
  local token, id = match(ARGV[a + 1], '^H(%S+) ([^\n]*)')
  local r = open(read(key))
  if r.held and r.state == 'H' and r.id == id then return hold(key, r, token, a) end
  local reason, note = lost(r, id, token)
  local never = reason == 'expired' or reason == 'older' or r.last == NONE and r.ended == ' '
  if r.held or content == '' or not never then return {LOST, reason, note} end
  if r.last >= token then r.last = tokenText(token - 1) end -- the token itself is from before, and ours
  r.till, r.state, r.id, r.ttl, r.at, r.content = deadline(ttl), 'H', id, ttl, token, content
  r.promise, r.made, r.won, r.before, r.kept, r.token = try, try, try, r.last, '1', token
  r.last = token
  write(key, seal(r), r.last, ARGV[a + 3])
  return 0
end
