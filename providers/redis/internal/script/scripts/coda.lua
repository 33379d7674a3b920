-- Errors of a server that can't be used, and so of every operation. One that stops the first of a call is the whole call's, since
-- nothing was done: the client library sees it then, and may leave the server.
local UNUSABLE = {CLUSTERDOWN = true, LOADING = true, MASTERDOWN = true, MISCONF = true, NOREPLICAS = true, READONLY = true}

-- complete runs an operation. One that fails does not end the others.
local function complete(k, a)
  local ok, reply = pcall(run, k, a)
  if ok then return reply end
  -- The error of an operation begins with its code. Of a right that is missing in a
  -- script Redis 7.0 says no more than ERR, so that is asked for.
  local reason = type(reply) == 'table' and reply.err or tostring(reply)
  for _, command in ipairs(sub(reason, 1, 4) == 'ERR ' and redis.acl_check_cmd and {'get', 'set', 'zadd', 'pexpire', 'zrem'} or {}) do
    for i = k + 1, k + KEYS_EACH do
      if not redis.acl_check_cmd(command, KEYS[i]) then reason = 'NOPERM no right to ' .. command end
    end
  end
  if a == 4 and UNUSABLE[match(reason, '^%u*')] then error({err = reason}) end
  return {FAILED, reason}
end
