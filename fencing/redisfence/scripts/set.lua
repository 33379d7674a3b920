-- Sets KEYS[1] to ARGV[1], for ARGV[2] milliseconds; '0' keeps it.
if ARGV[2] == '0' then
  return redis.call('SET', KEYS[1], ARGV[1])
end
return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
