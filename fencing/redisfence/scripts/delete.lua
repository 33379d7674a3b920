-- Deletes KEYS and returns how many of them there were. One by one: unpack
-- fails on some thousands.
local removed = 0
for _, key in ipairs(KEYS) do
  removed = removed + redis.call('DEL', key)
end
return removed
