-- Read a page of sessions, by the order of one list or of several together, after taking out up to 200 that are due.
-- KEYS: those of partition.lua, then sorted sets of sids. ARGV: first and last rank, then "REV" for the highest score
-- first, or nothing. Reply: rows, see row_of and
-- with_ended.
-- include partition.lua
local first, last, reverse = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]

remove(due(200), "expired")
local sids = {}
if #KEYS == 11 then
  sids = redis.call("ZRANGE", KEYS[11], first, last, unpack(ARGV, 3))
else
  local entries = {}
  for index = 11, #KEYS do
    local flat = redis.call("ZRANGE", KEYS[index], 0, last, "WITHSCORES", unpack(ARGV, 3))
    for at = 1, #flat, 2 do
      table.insert(entries, { sid = flat[at], score = tonumber(flat[at + 1]) })
    end
  end
  table.sort(entries, function(one, other)
    if reverse then one, other = other, one end
    if one.score ~= other.score then return one.score < other.score end
    return one.sid < other.sid
  end)
  for at = first + 1, math.min(last + 1, #entries) do
    table.insert(sids, entries[at].sid)
  end
end

local rows = {}
for _, sid in ipairs(sids) do
  table.insert(rows, row_of(sid, redis.call("HGET", login, sid)))
end
return with_ended(rows)
