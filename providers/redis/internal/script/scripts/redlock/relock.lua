-- relock (Redlock): name; head content try metadata.
--
-- A renewal on a node that may have lost the lease, or never had it. With content the token is
-- known to be the claim's, granted to the attempt try: then it may be another than the node's, if it is above all that the
-- node knew before this lease, and it takes a free node again whose latest token is no newer; but
-- not after the release, which the node remembers. The metadata, unless empty, replace what
-- is stored. Replies 0, or why the claim is lost here: broken, taken, gone, expired; or,
-- where the node alone can't tell, newer or older, as its token is.

-- hold renews what the claim holds here. From then on no attempt takes it back. The node gets the lease's
-- token, and not a lower one than a later attempt has found.
local function hold(key, r, token, a)
  if r.token ~= token and (ARGV[a + 2] == '' or r.before >= token) then return {LOST, r.token > token and 'taken' or 'gone'} end
  r.ttl, r.till, r.made = ttl, deadline(), '0'
  if r.token < token or tonumber(r.promise) <= tonumber(ARGV[a + 3]) then r.token = token end
  if r.last < token then r.last = token end
  if ARGV[a + 4] ~= '' then r.content = match(r.content, '^\n[^\n]*\n') .. ARGV[a + 4] end
  write(key, seal(r), r.last)
  return 0
end

-- lost is why the claim does not hold the node.
local function lost(r, id, token)
  if r.state == 'B' and r.id == id then return 'broken', match(r.content, '\n([^\n]*\n[^\n]*)$') end
  local over, broken = hasEnded(r.ended, digestOf(id))
  if over then return broken and 'broken' or 'gone' end
  if r.held then return r.token > token and 'taken' or 'gone' end
  if r.last > token then return 'newer' end -- somebody got this node, maybe no other
  if r.last == token then return 'expired' end
  return (r.last ~= NONE or r.ended ~= '') and 'older' or 'gone'
end

local function run(k, a)
  if quarantine > 0 then return {QUARANTINED, quarantine} end
  local key, content, try = KEYS[k + 1], ARGV[a + 2], ARGV[a + 3]
  local token, id = match(ARGV[a + 1], '^H(%S+) ([^\n]*)')
  local r = open(read(key))
  if r.held and r.state == 'H' and r.id == id then return hold(key, r, token, a) end
  local reason, note = lost(r, id, token)
  local never = reason == 'expired' or reason == 'older' or r.last == NONE and r.ended == ''
  if r.held or content == '' or not never then return {LOST, reason, note} end
  if r.last >= token then r.last = tokenText(token - 1) end -- the token itself is from before, and ours
  r.till, r.state, r.id, r.ttl, r.at, r.content = deadline(), 'H', id, ttl, token, content
  r.promise, r.made, r.before, r.token, r.last = try, '0', r.last, token, token
  write(key, seal(r), r.last)
  return 0
end
