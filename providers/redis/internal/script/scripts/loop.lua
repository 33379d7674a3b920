-- The end of every script but admit.lua. An operation's keys and arguments follow the k-th key
-- and the a-th argument, KEYS_EACH and ARGS_EACH of them.
local replies, n, k, a, last, head, line = {}, 0, firstKey, 4, #ARGV
while a < last do
  local reply
  -- QUICK
  n = n + 1
  replies[n] = reply or complete(k, a)
  k, a = k + KEYS_EACH, a + ARGS_EACH
end
return replies
