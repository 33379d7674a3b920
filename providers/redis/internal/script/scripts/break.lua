-- break: name queue; token-or-0 immediate grace note. The note is who breaks
-- the lease and why, a line each: those of the first to do so are kept. Replies whether
-- the name was held, the latest token, and the time left (ms).

local function run(k, a)
  local key, ifToken, immediate = KEYS[k + 1], tonumber(ARGV[a + 1]), ARGV[a + 2] == '1'
  local r = open(read(key))
  if quarantine > 0 then -- its word does not count, but waiters here are woken by nobody else
    if immediate and r.flag ~= '-' then
      local text = vacant(k, r.flag, r.last, r.ended)
      if sub(text, 17, 17) == 'R' and not r.held then write(key, text, r.last) end
    end
    return {QUARANTINED, quarantine}
  end
  local token = tonumber(r.held and r.token or r.last)
  if ifToken > 0 and token ~= ifToken then return {STALE, token} end
  if not r.held then return {BROKEN, 0, token, 0} end
  r.ended = withBroken(r.ended, r.id)
  if immediate then
    write(key, vacant(k, r.flag, r.last, r.ended), r.last)
    return {BROKEN, 1, token, 0}
  end
  local infinite = r.till == FOREVER
  if infinite then r.till = nowMillis + ARGV[a + 3] .. '' end
  local left = r.till - nowMillis
  if r.state == 'H' then
    r.state, r.content = 'B', r.content .. '\n' .. ARGV[a + 4]
    write(key, seal(r), r.last, keep == '0' and keep or keep + left)
  end
  if infinite then prepare(KEYS[k + 1], KEYS[k + 2], 0, left) end -- the first asks how long that is, and keeps its place
  return {BROKEN, 1, token, left}
end
