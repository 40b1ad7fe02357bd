-- Replace the record of a session that is still there, and still as it was loaded. This is for all saves that
-- change.lua is not for.
-- KEYS: those of partition.lua, then the popularity to count the view in, if it is in this partition.
-- ARGV: sid, record, user id or "", login time or "", the time by which the record was made, deadline, "1" if a later
-- deadline stays, revision that was loaded ("": replace any). Where an item is viewed, three more: the item, how many
-- items a session keeps, how many there may be in all.
-- Reply: "saved". Or nothing is written: "gone" and the note, "changed" and the record that is there, or "clock" and
-- the time to go by; then the item, whose view was not noted. See with_ended.
-- include partition.lua
-- include user.lua
-- include record.lua
-- include popular.lua
-- include viewed.lua
-- include latest.lua
-- include remove.lua
-- include relief.lua
-- include put.lua
local sid, record, user_id, login_time, at, due = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local later_stays, loaded, item, keep, items_max = ARGV[7] == "1", ARGV[8], ARGV[9], ARGV[10], ARGV[11]

local found, before = live_record(sid)
if not found then return with_ended({ "gone", note_of(sid), item }) end
-- A client repeats a command whose reply it lost: then the record that it brings is there already.
if revision_of(found) == revision_of(record) then return with_ended({ "saved" }) end
if loaded ~= "" and revision_of(found) ~= loaded then return with_ended({ "changed", found, item }) end
local user_before = user_of(found)
local seen = now_or(redis.call("ZSCORE", seen_list_of(user_before), sid))
if not agrees(seen, at) then return with_ended({ "clock", text(seen), item }) end

first_write(sid, record)
if later_stays then due = math.max(due, before) end
if due ~= before then set_deadline(sid, due, before) end
if user_before ~= user_id then leave(sid, user_before) end
enter(sid, user_id, login_time, at)
-- pcall: the session is written, whatever becomes of that.
if item then pcall(note_view, sid, item, keep, items_max, KEYS[11]) end
return with_ended({ "saved" })
