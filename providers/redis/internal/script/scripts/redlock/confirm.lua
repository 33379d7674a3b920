-- confirm (Redlock): name; id token try.
--
-- Makes the token that of the claim, if the claim still holds this node, no later attempt
-- has asked here since, and nobody had that token or a later one here before. The name's
-- latest token is never lowered. Replies 0.

local function run(k, a)
  if quarantine > 0 then return {QUARANTINED, quarantine} end
  local key, token, span = KEYS[k + 1], ARGV[a + 2]
  local r = open(read(key))
  if not r.held or r.state == 'B' or r.id ~= ARGV[a + 1] then return {LOST, 'taken'} end
  if tonumber(r.promise) > tonumber(ARGV[a + 3]) or r.before >= token then return {STALE, tonumber(r.token)} end
  r.token = token
  if r.last < token then r.last = token end
  if keep ~= '0' then span = math.max(keep, r.till - nowMillis) end -- it may have been asked for, for longer
  write(key, seal(r), r.last, span)
  return 0
end
