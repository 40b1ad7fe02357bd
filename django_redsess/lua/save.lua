-- Replace the record of a session that is still there, and still as it was loaded.
-- ARGV: sid, record, user id or "", date or "", interval, idle, absolute, revision that it was loaded with ("": replace
-- any), "1" for a new login time, "1" not to prolong it; item that it views, how many of these to keep, and of all
-- items; or none of the three.
-- KEYS: those of partition.lua, then the popularity to count the view in, if it is in this partition.
-- Reply: "saved"; or "gone", why; or "changed", the record that is there; and to these two the item, whose view has not
-- been noted. Only the first has written anything.
-- include partition.lua
-- include user.lua
-- include record.lua
-- include seen.lua
-- include popular.lua
-- include viewed.lua
-- include latest.lua
-- include put.lua
local sid, record, user_id, date, loaded = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[8]
local policy, signs_in, passive = policy_from(ARGV[5], ARGV[6], ARGV[7]), ARGV[9] == "1", ARGV[10] == "1"
local item, keep, items_max = ARGV[11], ARGV[12], ARGV[13]

local found, before = live_record(sid)
if not found then return { "gone", note_of(sid), item } end
-- A client repeats a command whose reply it lost: then the record that it brings is there already.
if revision_of(found) == revision_of(record) then return { "saved" } end
if loaded ~= "" and revision_of(found) ~= loaded then return { "changed", found, item } end

local user_before, since_seen = user_of(found), since_seen_of(sid)
local seen = now - math.min(0, since_seen)
local comes = user_id ~= "" and (user_before ~= user_id or signs_in)
if user_before ~= "" and user_before ~= user_id then sign_out(sid, user_before) end
local deadline_before, age_before = django_times(found)
local _, age = django_times(record)
if passive and age == age_before and age > 0 then
  write(sid, record, deadline_before, before, before)
else
  local limited = user_id ~= "" and policy.absolute > 0
  local login_time = comes and seen or limited and (redis.call("ZSCORE", online_user, sid) or seen)
  write_anew(sid, record, login_time, date, policy, seen, before)
end
note_seen(sid, record, since_seen, comes and 0 or policy.interval)
if comes then sign_in(sid, user_id, seen, seen) end
-- pcall: the session is written, whatever becomes of that.
if item then pcall(note_view, sid, item, keep, items_max, KEYS[11]) end
return { "saved" }
