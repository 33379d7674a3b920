-- renew: name; head ttl keep metadata.
--
-- head is how the name's text goes on at its state if the claim holds it. The
-- metadata, unless empty, replace what is stored. Replies 0.

-- lost is why a claim can't be renewed; and of a broken lease who broke it and why, a
-- line each.
local function lost(text, head)
  local token, id = match(head, '^H(%d+) ([^\n]*)')
  local state, last, holder, ended, rest = match(text, '^(%u)(%d+) ([^\n]*)\n([^\n]*)\n(.*)$', 17)
  if state == 'B' and holder == id then return 'broken', match(rest, '\n([^\n]*\n[^\n]*)$') end
  local over, broken = hasEnded(ended, id)
  if over then return broken and 'broken' or 'gone' end
  if state == 'H' and holder == id and last == token then return 'expired' end
  return last > token and 'taken' or 'gone' -- what was granted is lost, or never was
end

local function run(k, a)
  local key, head, ttl, metadata = KEYS[k + 1], ARGV[a + 1], ARGV[a + 2], ARGV[a + 4]
  local text = read(key)
  if sub(text, 17, 16 + #head) ~= head or sub(text, 3, 15) <= nowMillis then return {LOST, lost(text, head)} end
  local before, was, line, stored = sub(text, 16), nil, find(text, '\n', 17 + #head, true)
  if metadata ~= '' or match(text, '^%d+', line + 1) ~= ttl then
    was, stored = match(text, '^%d+([^\n]*\n[^\n]*\n)(.*)$', line + 1)
    before = sub(text, 16, line) .. ttl .. was .. (metadata == '' and stored or metadata)
  end
  write(key, sub(text, 1, 2) .. deadline(ttl) .. before, ARGV[a + 3])
  return 0
end
