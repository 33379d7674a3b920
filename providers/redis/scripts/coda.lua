-- The end of every script but mark.lua: run takes the operation whose keys and
-- arguments follow the k-th key and the a-th argument, KEYS_EACH and ARGS_EACH of them.

local replies, k, a = {}, firstKey, 2
while a < #ARGV do
  local ok, reply = pcall(run, k, a)
  if not ok then
    reply = {FAILED, type(reply) == 'table' and reply.err or tostring(reply)}
  end
  replies[#replies + 1] = reply
  k, a = k + KEYS_EACH, a + ARGS_EACH
end
return replies
