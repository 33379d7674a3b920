-- admit: looks whether a server of Redlock has lost data. It is sent before any other
-- script, on the same connection, to a server that does not know those: see member.go of package node.
--
-- KEYS[1] is the server's marker, three words: until when it casts no vote (ms), the
-- run of the server that this is for, and the run that wrote the first marker. ARGV[1]
-- is "admit", or "look", which changes nothing, or "bootstrap", which lets a new server
-- vote. ARGV[2] is for how long a server that may have lost data casts no vote (ms).
-- Replies with the run, the first run, for how long the server casts no vote (ms), and
-- 1 if it is new.

local key, now = KEYS[1]
for _, command in ipairs({{'time'}, {'info', 'server'}, {'get', key}, {'set', key, ''}}) do
  if redis.acl_check_cmd and not redis.acl_check_cmd(unpack(command)) then
    return redis.error_reply('NOPERM no right to ' .. command[1])
  end
end

local t = redis.call('TIME')
now = t[1] * 1000 + math.floor(t[2] / 1000)
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local till, of, first = string.match(redis.call('GET', key) or '', '^(%d+) (%w+) ?(%w*)$')
if not first or first == '' then first = of or run end

local function mark(time)
  till, of = time, run
  redis.call('SET', key, string.format('%.0f', till) .. ' ' .. run .. ' ' .. first)
end

-- A server without its marker is new, or has lost everything; which of them it is only
-- an operator knows. It is still so while the first quarantine lasts.
local new = not till or of == run and first == run and tonumber(till) > now
if ARGV[1] == 'bootstrap' and new then
  mark(0)
elseif ARGV[1] == 'admit' and of ~= run then -- started again since: it may have lost the latest leases
  mark(now + ARGV[2])
end
return {run, first, till and math.max(0, till - now) or 0, new and 1 or 0}
