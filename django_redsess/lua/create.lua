-- Add a session. This and add.lua are the only ways in.
-- KEYS: as save.lua.
-- ARGV: as save.lua from the sid to the deadline; how many sessions the user may have, or "", and what happens above
-- that. Then "", or, for a session that comes from another partition, how many arguments follow, and what it viewed
-- there: item, time, item, time, … Last, "1" if nobody can have had that sid, else "0"; and the item as in save.lua.
-- A repetition leaves these out.
-- Reply: "saved", and "crowded" where the user may still have too many. Or nothing is written: "taken" where another
-- session has that sid; or "clock" and the time to go by, or "refused" and "", then the item. See with_ended.
-- include partition.lua
-- include user.lua
-- include record.lua
-- include popular.lua
-- include viewed.lua
-- include latest.lua
-- include remove.lua
-- include relief.lua
-- include put.lua
-- include room.lua
local sid, record, user_id, login_time, at, due = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local limit, above, moves = tonumber(ARGV[7]), ARGV[8], ARGV[9] ~= ""
local last = 9 + (tonumber(ARGV[9]) or 0)
local is_new, item, keep, items_max = ARGV[last + 1] == "1", ARGV[last + 2], ARGV[last + 3], ARGV[last + 4]

local found = not is_new and redis.call("HGET", login, sid)
-- A client repeats a command whose reply it lost. What that reply said of "crowded" nobody knows, so it is said again.
if found then
  return with_ended({ revision_of(found) == revision_of(record) and "saved" or "taken", limit and "crowded" })
end
-- A repetition does not bring back what was ended meanwhile.
if not is_new and note_of(sid) ~= "" then return with_ended({ "taken" }) end
local seen = now_or_latest(seen_list_of(user_id))
if not agrees(seen, at) then return with_ended({ "clock", text(seen), item }) end
local goes, too_many, why = in_the_way(user_id, sid, nil, limit, above)
if not goes then return with_ended({ "refused", "", item }) end
put(sid, record, user_id, login_time, at, due)
for index = 10, last, 2 do
  redis.call("ZADD", viewed_by .. sid, ARGV[index + 1], ARGV[index])
end
-- pcall: the session is there, whatever becomes of these.
if item then pcall(note_view, sid, item, keep, items_max, KEYS[11]) end
if not moves then redis.pcall("HINCRBY", totals, "created", 1) end
return with_ended({ "saved", make_room(goes, too_many, why) })
