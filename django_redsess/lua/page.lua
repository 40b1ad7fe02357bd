-- Read a page of sessions, after taking out up to 200 that are due.
-- KEYS: see listing.lua.
-- ARGV: "" to go by the scores of the one list or two, else "login" or "seen" for lists of users; how many milliseconds
-- ago sessions were last seen at most, or "" (the scores of the one list or two are last seen, where this is given);
-- first and last rank; "REV" for the latest first, or ""; "rows" to read rows too, "as it is" to take out nothing, or
-- "".
-- Reply: sid, score, sid, score, …; how many of these the rows are of; the rows, see row_of. See with_ended.
-- include partition.lua
-- include user.lua
-- include remove.lua
-- include rows.lua
-- include listing.lua
-- include together.lua
local order, since, first, last, reverse = ARGV[1], since_from(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

if ARGV[6] ~= "as it is" then remove(due(200), "expired") end
local entries = {}
if order == "" then
  local parts = {}
  for index = 11, #KEYS do
    local before = since ~= "" and redis.call("ZCOUNT", KEYS[index], "-inf", "(" .. since) or 0
    parts[#parts + 1] = part_of(KEYS[index], before, reverse == "REV")
  end
  local one, other = parts[1], parts[2]
  if other then
    entries = read_together(one, other, first, last, reverse == "REV")
  elseif first < one.count then
    entries = one.read(first, last)
  end
else
  local sids, scores = of_users(order == "seen", since)
  table.sort(sids, function(one, other)
    if reverse == "REV" then one, other = other, one end
    if scores[one] ~= scores[other] then return scores[one] < scores[other] end
    return one < other
  end)
  for at = first + 1, math.min(last + 1, #sids) do
    entries[#entries + 1] = sids[at]
    entries[#entries + 1] = text(scores[sids[at]])
  end
end

local sids = {}
for at = 1, ARGV[6] == "rows" and #entries or 0, 2 do sids[#sids + 1] = entries[at] end
local rows, count = rows_of(sids, 1)
return with_ended({ entries, count, rows })
