-- Read a page of sessions, by the order of one list or of several together, after taking out up to 200 that are due.
-- KEYS: those of partition.lua, then sorted sets of sids. ARGV: first and last rank, "REV" for the highest score first
-- (or ""). Reply: rows, see row_of.
-- include partition.lua
local first, last, reverse = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == "REV"

local function range(key, from, to, ...)
  if reverse then return redis.call("ZRANGE", key, from, to, "REV", ...) end
  return redis.call("ZRANGE", key, from, to, ...)
end

remove(due(200))
local sids = {}
if #KEYS == 8 then
  sids = range(KEYS[8], first, last)
else
  local entries = {}
  for index = 8, #KEYS do
    local flat = range(KEYS[index], 0, last, "WITHSCORES")
    for at = 1, #flat, 2 do
      table.insert(entries, { sid = flat[at], score = tonumber(flat[at + 1]) })
    end
  end
  table.sort(entries, function(one, other)
    if one.score == other.score then one, other = { score = one.sid }, { score = other.sid } end
    if reverse then return one.score > other.score end
    return one.score < other.score
  end)
  for at = first + 1, math.min(last + 1, #entries) do
    table.insert(sids, entries[at].sid)
  end
end

local rows = {}
for _, sid in ipairs(sids) do
  table.insert(rows, row_of(sid, redis.call("HGET", login, sid)))
end
return rows
