-- renew: lease fence; head ttl keep metadata.
--
-- head is how the lease begins if the claim holds it: ID and token, a line each. The
-- metadata, unless empty, replace what is stored. Replies 0.

local function run(k, a)
  if mute > 0 then return {QUARANTINED, mute} end
  local lease, fence, head, ttl, metadata = KEYS[k + 1], KEYS[k + 2], ARGV[a + 1], ARGV[a + 2], ARGV[a + 4]
  local held = call('GET', lease)
  if held and sub(held, 1, #head) == head then
    rewrite(lease, held, altered(held, ttl, metadata), metadata)
    if ttl == '0' then call('PERSIST', lease) else call('PEXPIRE', lease, ttl) end
    extend(fence, ttl, ARGV[a + 3], head)
    return 0
  end
  local id, token = match(head, '^([^\n]*)\n(%d+)\n')
  return {LOST, why(held, call('GET', fence), id, token)}
end
