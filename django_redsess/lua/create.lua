-- Add a session; the only way in. Takes out up to two that are due and two above the maximum, so that the store stays
-- bounded though no cleaner runs.
-- ARGV: sid, record, user id or "", date or "", interval, idle, absolute, maximum; how many sessions the user may have,
-- or "", and what happens above that; if it comes from another partition, how many arguments follow, and item, time,
-- item, time, … that it has viewed, else ""; "1" if nobody can have had that sid, which is not sent with a repetition;
-- item that it views, how many of these to keep, and of all items; or none of the three.
-- KEYS: as save.lua. Reply: "saved", and "crowded" where the user may still have too many; "taken", when another session
-- has that sid; or "refused", nothing, and the item; see with_ended.
-- include partition.lua
-- include user.lua
-- include record.lua
-- include popular.lua
-- include viewed.lua
-- include latest.lua
-- include put.lua
-- include remove.lua
-- include room.lua
local sid, record, user_id, date, maximum = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[8])
local policy, limit, above, moves = policy_from(ARGV[5], ARGV[6], ARGV[7]), tonumber(ARGV[9]), ARGV[10], ARGV[11] ~= ""
local last = 11 + (tonumber(ARGV[11]) or 0)
local is_new, item, keep, items_max = ARGV[last + 1] == "1", ARGV[last + 2], ARGV[last + 3], ARGV[last + 4]

local found = not is_new and redis.call("HGET", login, sid)
-- A client repeats a command whose reply it lost, and what that reply said nobody knows.
if found then
  return with_ended({ revision_of(found) == revision_of(record) and "saved" or "taken", limit and "crowded" })
end
-- Nor does what was ended meanwhile come back by that.
if not is_new and note_of(sid) ~= "" then return with_ended({ "taken" }) end
local first = first_deadline()
if first and first <= now then
  remove(due(2), "expired")
  first = nil
end
remove(excess(maximum - 1, 2), "evicted")
local goes, too_many, why = in_the_way(user_id, sid, nil, limit, above)
if not goes then return with_ended({ "refused", "", item }) end
put(sid, record, user_id, nil, date, policy, first)
for at = 12, last, 2 do
  redis.call("ZADD", viewed_by .. sid, ARGV[at + 1], ARGV[at])
end
-- pcall: the session is there, whatever becomes of these.
if item then pcall(note_view, sid, item, keep, items_max, KEYS[11]) end
if not moves then redis.pcall("HINCRBY", totals, "created", 1) end
return with_ended({ "saved", make_room(goes, too_many, why) })
