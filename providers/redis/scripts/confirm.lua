-- confirm (Redlock): lease fence; id token try keep.
--
-- Makes the token the one that an attempt has agreed on with a majority, and raises
-- the fence to it, if the claim still holds this node and no later attempt has asked
-- here since. A fence is never lowered. Replies 0.

local function run(k, a)
  if mute > 0 then return {QUARANTINED, mute} end
  local lease, fence, id, text, try = KEYS[k + 1], KEYS[k + 2], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
  local held, f = call('GET', lease), call('GET', fence) or '0 '
  if not held or match(held, '^[^\n]*') ~= id then return {LOST, 'taken'} end
  local _, _, at, promise, made, _, before, kept, tail = open(held)
  local token = tonumber(text)
  if tonumber(promise) > tonumber(try) then return {OVERTAKEN, tonumber(promise)} end
  if tonumber(before) >= token then return {STALE, tonumber(before)} end
  call('SET', lease, seal(id, text, at, try, made, try, before, kept, tail), 'KEEPTTL')
  local last, rest = match(f, '^(%d+)(.*)$')
  if tonumber(last) < token then
    call('SET', fence, text .. rest, 'KEEPTTL')
    if token > now and ARGV[a + 4] ~= '0' then call('PEXPIRE', fence, keeping(token, ARGV[a + 4]), 'GT') end
  end
  return 0
end
