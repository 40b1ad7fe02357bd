-- Read a page of sessions, after taking out up to 200 that are due.
-- KEYS: see listing.lua. ARGV: "" to go by the scores of the one list, else "login" or "seen" for lists of users;
-- how many milliseconds ago they were seen at most, or "" (the scores of the one list are when they were, then); first
-- and last rank; "REV" for the latest first, or ""; "rows" to read rows too, "as it is" to take out nothing, or "".
-- Reply: sid, score, sid, score, …; and rows, see row_of, of how many of them; see with_ended.
-- include partition.lua
-- include user.lua
-- include remove.lua
-- include rows.lua
-- include listing.lua
local order, since, first, last, reverse = ARGV[1], since_from(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

if ARGV[6] ~= "as it is" then remove(due(200), "expired") end
local entries = {}
if order == "" then
  -- By rank, which takes the same time at any depth.
  local before = since ~= "" and redis.call("ZCOUNT", KEYS[11], "-inf", "(" .. since) or 0
  if reverse == "REV" then
    last = math.min(last, redis.call("ZCARD", KEYS[11]) - before - 1)
    entries = last >= first and redis.call("ZRANGE", KEYS[11], first, last, "REV", "WITHSCORES") or {}
  else
    entries = redis.call("ZRANGE", KEYS[11], before + first, before + last, "WITHSCORES")
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
