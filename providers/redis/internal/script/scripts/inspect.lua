-- inspect: name; no arguments but one that is empty. Changes nothing.

local function run(k)
  if quarantine > 0 then return {QUARANTINED, quarantine} end
  return {SEEN, read(KEYS[k + 1]), now}
end
