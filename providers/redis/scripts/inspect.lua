-- inspect: lease fence; no arguments but one that is empty. Changes nothing.

local function run(k)
  if mute > 0 then return {QUARANTINED, mute} end
  local held = call('GET', KEYS[k + 1])
  if held then return {HELD, held, call('PTTL', KEYS[k + 1]), now} end
  return {FREE, tonumber(match(call('GET', KEYS[k + 2]) or '0', '^%d+')), now}
end
