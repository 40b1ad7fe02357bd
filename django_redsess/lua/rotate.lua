-- Give a session a new sid and a new record at once. What it viewed goes along. For five minutes a note under the old
-- sid tells late requests.
-- KEYS: as save.lua.
-- ARGV: old sid, new sid, record ("" where it has been written into another partition already); as save.lua from the
-- user id to the deadline; revision that was loaded ("": replace any); how many sessions the user may have, or "", and
-- what happens above that; the item as in save.lua.
-- Reply: as save.lua, but "saved" is followed by "crowded" where the user may still have too many; or "refused", as
-- create.lua has it.
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
local old_sid, sid, record, user_id, login_time, at = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local due, loaded, limit, above = tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9]), ARGV[10]
local item, keep, items_max = ARGV[11], ARGV[12], ARGV[13]
local note = "rotated " .. sid

-- A client repeats a command whose reply it lost: then it has happened.
if note_of(old_sid) == note then return with_ended({ "saved", limit and "crowded" }) end
local found, before = live_record(old_sid)
if not found then return with_ended({ "gone", note_of(old_sid), item }) end
if loaded ~= "" and revision_of(found) ~= loaded then return with_ended({ "changed", found, item }) end
local seen = now_or_latest(seen_list_of(user_id))
if record ~= "" and not agrees(seen, at) then return with_ended({ "clock", text(seen), item }) end
local goes, too_many, why = in_the_way(user_id, sid, old_sid, limit, above)
if not goes then return with_ended({ "refused", "", item }) end

-- The new one first: a server that is full refuses it, and then the old one is as it was.
if record ~= "" then
  spared[old_sid] = true
  put(sid, record, user_id, login_time, at, due, before)
  if redis.call("EXISTS", viewed_by .. old_sid) == 1 then
    redis.call("RENAME", viewed_by .. old_sid, viewed_by .. sid)
  end
  -- pcall: the session is written, whatever becomes of that.
  if item then pcall(note_view, sid, item, keep, items_max, KEYS[11]) end
end
redis.call("HDEL", login, old_sid)
redis.call("ZREM", expire, old_sid)
leave(old_sid, user_of(found))
if record == "" then redis.call("DEL", viewed_by .. old_sid) end
redis.call("SET", ended_of .. old_sid, note, "PX", 300000)
return with_ended({ "saved", make_room(goes, too_many, why) })
