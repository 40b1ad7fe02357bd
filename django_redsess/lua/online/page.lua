-- Read a page of sessions, after taking out up to DUE_MAX that are due.
-- KEYS: lists...
-- ARGV: order active first:number last:number latest_first:flag with_rows:flag keeps_due:flag
-- `lists` are the list, or two whose scores are of one kind; or lists of users, to be put in order together. `order` is
-- "" for the scores of the one list or two; else, for lists of users, "login" or "seen". Only sessions that were seen
-- at most `active` milliseconds ago; "" for all. Where that is given for the one list or two, their scores must be last
-- seen. `first` and `last` are ranks. `keeps_due` takes out nothing.
-- Reply: sid, score, sid, score, …; of how many of these rows follow; the rows, see row_of. See with_ended.
-- needs: clock, deadlines, remove, rows, active, user_lists, merged
local since = active_since(active)

local function read_by_rank()
  local parts = {}
  for _, list in ipairs(lists) do
    local skipped = since ~= "" and redis.call("ZCOUNT", list, "-inf", "(" .. since) or 0
    parts[#parts + 1] = part_of(list, skipped, latest_first)
  end
  local one, other = parts[1], parts[2]
  if other then return read_merged(one, other, first, last, latest_first) end
  return first < one.count and one.read(first, last) or {}
end

local function read_of_users()
  local sids, scores = of_users(order == "seen", since)
  table.sort(sids, function(one, other)
    if latest_first then one, other = other, one end
    if scores[one] ~= scores[other] then return scores[one] < scores[other] end
    return one < other
  end)
  local entries = {}
  for at = first + 1, math.min(last + 1, #sids) do
    entries[#entries + 1] = sids[at]
    entries[#entries + 1] = digits(scores[sids[at]])
  end
  return entries
end

if not keeps_due then remove(due_sids(DUE_MAX), "expired") end
local entries = order == "" and read_by_rank() or read_of_users()
local sids = {}
for at = 1, with_rows and #entries or 0, 2 do sids[#sids + 1] = entries[at] end
local rows, count = rows_of(sids)
return with_ended({ entries, count, rows })
