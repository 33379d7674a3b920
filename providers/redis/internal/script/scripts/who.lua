-- who: name queue; no arguments but one that is empty. Changes nothing. Replies with the clock,
-- and of those who wait, in order, the ID, since when, and the owner.

local MOST = 1000

-- hears says whether somebody listens on a channel: an empty message tells nothing. On a Cluster
-- that is not known.
local heard = {}
local function hears(channel)
  if heard[channel] == nil then heard[channel] = ARGV[1] == '1' or redis.pcall('PUBLISH', channel, '') ~= 0 end
  return heard[channel]
end

local function run(k)
  local text, state = read(KEYS[k + 1])
  local reply = {SEEN, now}
  if state == 'R' and reserved(text, '') then
    local id, since, owner = match(text, '^([^\n]*)\n\n[^\n]*\n(%d+) (.*)$', 35)
    for _, part in ipairs({id, since, owner}) do reply[#reply + 1] = part end
  end
  local found = redis.pcall('ZRANGE', KEYS[k + 2], 0, MOST - 1, 'WITHSCORES')
  if found.err then error(sub(found.err, 1, 4) == 'ERR ' and {err = 'NOPERM no right to zrange'} or found) end
  for i = 1, #found, 2 do
    local id, channel, owner = match(found[i], '^(%S+) ([^\n]*)\n?(.*)$')
    if #reply < 2 + 3 * MOST and hears(channel) then
      for _, part in ipairs({id, found[i + 1], owner}) do reply[#reply + 1] = part end
    end
  end
  return reply
end
