-- The end of every script but admit.lua. An operation's keys and arguments follow the
-- k-th key and the a-th argument, KEYS_EACH and ARGS_EACH of them. quick, where there
-- is one, does what is most common, or says nil and has done nothing that matters;
-- make returns the functions that do all, and say why one has failed.

local replies, k, a, run, reason = {}, firstKey, 2
while a < #ARGV do
  local reply = quick and mute == 0 and quick(k, a)
  if not reply then
    local ok
    if not run then run, reason = make() end
    ok, reply = pcall(run, k, a)
    if not ok then reply = {FAILED, reason(reply, k)} end
  end
  replies[#replies + 1] = reply
  k, a = k + KEYS_EACH, a + ARGS_EACH
end
return replies
