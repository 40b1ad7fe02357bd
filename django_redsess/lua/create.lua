-- Add a session; the only way in. Takes out up to two that are due and two above the maximum, so that the store stays
-- bounded though no cleaner runs.
-- ARGV: sid, record, user id or "", date or "", interval, idle, absolute, maximum; if it comes from another partition,
-- how many arguments follow, and item, time, item, time, … that it has viewed, else ""; item that it views, how many of
-- these to keep, or neither. KEYS: as save.lua. Reply: 1, or 0 when another session has that sid; see with_ended.
-- include partition.lua
-- include seen.lua
-- include put.lua
-- include remove.lua
local sid, record, user_id, date, maximum = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[8])
local policy, moves = policy_from(ARGV[5], ARGV[6], ARGV[7]), ARGV[9] ~= ""
local last = 9 + (tonumber(ARGV[9]) or 0)
local item, keep = ARGV[last + 1], ARGV[last + 2]

local found = redis.call("HGET", login, sid)
if found then return with_ended(revision_of(found) == revision_of(record) and 1 or 0) end
-- A client repeats a command whose reply it lost: what was ended meanwhile does not come back by that.
if note_of(sid) ~= "" then return with_ended(0) end
remove(due(2), "expired")
remove(excess(maximum - 1, 2), "evicted")
put_anew(sid, record, user_id, nil, date, policy)
for at = 10, last, 2 do
  redis.call("ZADD", viewed_by .. sid, ARGV[at + 1], ARGV[at])
end
-- pcall: the session is there, whatever becomes of these.
if item then pcall(note_view, sid, item, keep, KEYS[11]) end
if not moves then redis.pcall("HINCRBY", totals, "created", 1) end
return with_ended(1)
