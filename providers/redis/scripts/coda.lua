-- The end of every script but admit.lua. An operation's keys and arguments follow the
-- k-th key and the a-th argument, KEYS_EACH and ARGS_EACH of them.

-- reason is the error of an operation, its code first. Of a right that is missing in a
-- script Redis 7.0 says no more than ERR, so that is asked for.
local function reason(failed, k)
  local text = type(failed) == 'table' and failed.err or tostring(failed)
  if sub(text, 1, 4) ~= 'ERR ' or not redis.acl_check_cmd then return text end
  for _, command in ipairs({'get', 'set', 'zadd', 'pexpire', 'zrem'}) do
    for i = k + 1, k + KEYS_EACH do
      if not redis.acl_check_cmd(command, KEYS[i]) then return 'NOPERM no right to ' .. command end
    end
  end
  return text
end

local replies, k, a = {}, firstKey, 2
while a < #ARGV do
  local ok, reply = pcall(run, k, a)
  if not ok then reply = {FAILED, reason(reply, k)} end
  replies[#replies + 1] = reply
  k, a = k + KEYS_EACH, a + ARGS_EACH
end
return replies
