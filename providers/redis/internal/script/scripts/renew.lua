-- renew: name; head ttl keep metadata.
--
-- head is how the name's text goes on at its state if the claim holds it, down to the
-- ID. The metadata, unless empty, replace what is stored. Replies 0.

-- lost is why a claim can't be renewed; and of a broken lease who broke it and why, a
-- line each.
local function lost(text, head)
  local token, id = match(head, '^H(%S+) ([^\n]*)')
  local state, last, holder, ended, rest = match(text, '^(%u)(%d+) ([^\n]*)\n[^\n]*\n([^\n]*)\n?(.*)$', 17)
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
  local rest, same = sub(text, 16), 17 + #head + #ttl
  if metadata ~= '' or sub(text, 17 + #head, same) ~= ttl .. '\n' then
    local details, content, stored = match(rest, '^%d+([^\n]*\n[^\n]*\n)([^\n]*\n)(.*)$', 2 + #head)
    rest = ' ' .. head .. ttl .. details .. content .. (metadata == '' and stored or metadata)
  end
  write(key, sub(text, 1, 2) .. deadline(ttl) .. rest, sub(head, 2, 17), ARGV[a + 3])
  return 0
end
