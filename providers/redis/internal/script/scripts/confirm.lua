-- confirm (Redlock): name; id token try keep.
--
-- Makes the token the one that an attempt has agreed on with a majority, and the name's
-- latest, if the claim still holds this node and no later attempt has asked here since. The
-- latest token is never lowered. Replies 0.

local function run(k, a)
  if mute > 0 then return {QUARANTINED, mute} end
  local key, token, try, keep = KEYS[k + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4]
  local r = open(read(key))
  if not r.held or r.state == 'B' or r.id ~= ARGV[a + 1] then return {LOST, 'taken'} end
  if tonumber(r.promise) > tonumber(try) then return {OVERTAKEN, tonumber(r.promise)} end
  if r.before >= token then return {STALE, tonumber(r.before)} end
  r.token, r.promise, r.won = token, try, try
  if r.last >= token then
    call('SET', key, seal(r), 'KEEPTTL')
  else
    r.last = token
    if keep ~= '0' then keep = math.max(keep, r.till - nowMillis) end -- it may have been asked for, for longer
    write(key, seal(r), token, keep)
  end
  return 0
end
