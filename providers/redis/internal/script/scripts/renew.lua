-- renew: name; head.
--
-- head is how the name's text goes on at its state if the claim holds it and its TTL
-- stays the same. Metadata, which may follow, replace what is stored. Replies 0.

-- lost is why a claim can't be renewed; and of a broken lease who broke it and why, a
-- line each.
local function lost(text, token, id)
  local state, last, holder, ended, rest = match(text, '^(%u)(%d+) ([^\n]*)\n[^\n]*\n([^\n]*)\n?(.*)$', 17)
  if state == 'B' and holder == id then return 'broken', match(rest, '\n([^\n]*\n[^\n]*)$') end
  local over, broken = hasEnded(ended, digestOf(id))
  if over then return broken and 'broken' or 'gone' end
  if state == 'H' and holder == id and last == token then return 'expired' end
  return last > token and 'taken' or 'gone' -- what was granted is lost, or never was
end

local function run(k, a)
  local key = KEYS[k + 1]
  local text, state = read(key)
  local token, id, metadata = match(ARGV[a + 1], '^H(%S+) ([^\n]*)\n[^\n]*\n(.*)$')
  local last, holder, details, content, stored = match(text, '^(%d+) ([^\n]*)\n%d+([^\n]*\n[^\n]*\n)([^\n]*\n)(.*)$', 18)
  if state ~= 'H' or last ~= token or holder ~= id or sub(text, 3, 15) <= nowMillis then return {LOST, lost(text, token, id)} end
  write(key, sub(text, 1, 2) .. deadline() .. sub(text, 16, 34) .. id .. '\n' .. ttl .. details .. content .. (metadata == '' and stored or metadata), token)
  return 0
end
