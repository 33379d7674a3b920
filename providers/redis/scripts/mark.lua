-- mark (Redlock): KEYS[1] is a node's marker: until when it casts no vote (ms), and
-- which run of the server has written that. Replies whether it is there, and with
-- ARGV[1] "1" sets it if it is not: then the node votes from now on.

local known = redis.call('EXISTS', KEYS[1])
if known == 0 and ARGV[1] == '1' then
  redis.call('SET', KEYS[1], '0 ' .. string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'))
end
return {known}
