-- The end of every script but admit.lua. An operation's keys and arguments follow the
-- k-th key and the a-th argument, KEYS_EACH and ARGS_EACH of them.

local replies, k, a = {}, firstKey, 2
while a < #ARGV do
  local ok, reply = pcall(run, k, a)
  if not ok then
    -- The error of an operation begins with its code. Of a right that is missing in a
    -- script Redis 7.0 says no more than ERR, so that is asked for.
    local reason = type(reply) == 'table' and reply.err or tostring(reply)
    for _, command in ipairs(sub(reason, 1, 4) == 'ERR ' and redis.acl_check_cmd and {'get', 'set', 'zadd', 'pexpire', 'zrem'} or {}) do
      for i = k + 1, k + KEYS_EACH do
        if not redis.acl_check_cmd(command, KEYS[i]) then reason = 'NOPERM no right to ' .. command end
      end
    end
    reply = {FAILED, reason}
  end
  replies[#replies + 1] = reply
  k, a = k + KEYS_EACH, a + ARGS_EACH
end
return replies
