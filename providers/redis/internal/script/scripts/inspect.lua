-- inspect: name; no arguments but one that is empty. Changes nothing.

local function run(k)
  if mute > 0 then return {QUARANTINED, mute} end
  return {SEEN, read(KEYS[k + 1]), now}
end
