-- Give a session a new sid and a new record at once: it takes its login time and viewed items along. Late requests
-- find a note under its old sid, for five minutes.
-- ARGV: old sid, new sid, record ("" where it has been written into another partition already), then as save.lua from
-- the user id on to the one for a new login time; how many sessions the user may have, or "", and what happens above
-- that; and the item as there. KEYS: as save.lua. Reply: as save.lua, or that of a refusal as create.lua; "saved" is
-- followed by "crowded" where the user may still have too many; see with_ended.
-- include partition.lua
-- include user.lua
-- include record.lua
-- include popular.lua
-- include viewed.lua
-- include latest.lua
-- include put.lua
-- include remove.lua
-- include room.lua
local old_sid, sid, record, user_id, date, loaded = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[9]
local policy, signs_in = policy_from(ARGV[6], ARGV[7], ARGV[8]), ARGV[10] == "1"
local limit, above, item, keep, items_max = tonumber(ARGV[11]), ARGV[12], ARGV[13], ARGV[14], ARGV[15]
local note = "rotated " .. sid

-- A client repeats a command whose reply it lost: then it has happened.
if note_of(old_sid) == note then return with_ended({ "saved", limit and "crowded" }) end
local found = live_record(old_sid)
if not found then return with_ended({ "gone", note_of(old_sid), item }) end
if loaded ~= "" and revision_of(found) ~= loaded then return with_ended({ "changed", found, item }) end
local goes, too_many, why = in_the_way(user_id, sid, old_sid, limit, above)
if not goes then return with_ended({ "refused", "", item }) end

-- The new one first: a server that is full refuses it, and then the old one is as it was.
if record ~= "" then
  local login_time = user_of(found) == user_id and not signs_in and redis.call("ZSCORE", online_user, old_sid)
  put(sid, record, user_id, login_time, date, policy)
  if redis.call("EXISTS", viewed_by .. old_sid) == 1 then
    redis.call("RENAME", viewed_by .. old_sid, viewed_by .. sid)
  end
  -- pcall: the session is written, whatever becomes of that.
  if item then pcall(note_view, sid, item, keep, items_max, KEYS[11]) end
end
remove({ old_sid })
redis.call("SET", ended_of .. old_sid, note, "PX", 300000)
return with_ended({ "saved", make_room(goes, too_many, why) })
