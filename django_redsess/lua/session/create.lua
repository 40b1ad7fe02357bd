-- Add a session. Only this script and add.lua add any.
-- KEYS: popularity?
-- ARGV: sid record user_id login_time at due:number place limit:number policy full_at:number viewed:list
-- ONCE: is_new:flag item? keep? items_max?
-- `is_new` says that nobody can have had this sid. A session that comes from another partition brings what it viewed
-- there: item, time, item, time, … `limit` is how many sessions the user may have (nil: any number), `policy` what
-- happens above that, `full_at` as in above_limit. The rest is as in save.lua.
-- Reply: "saved", then "crowded" if the user may still have too many. Or nothing is written: "taken" if another session
-- has this sid; "clock" and the time by which the record must be made; "refused" and "". The last two are followed by
-- the item. See with_ended.
-- needs: partition, clock, seen, revision, notes, steady_clock, viewed_items, add_session, user_limit, remove
local found = not is_new and redis.call("HGET", login, sid)
-- The client repeats a command whose reply was lost. Whether that reply said "crowded" is not known: it is said again.
if found then
  return with_ended({ revision_of(found) == revision_of(record) and "saved" or "taken", limit and "crowded" })
end
-- A repetition does not bring back what has ended meanwhile.
if not is_new and note_of(sid) ~= "" then return with_ended({ "taken" }) end
local expected = steady_time_of(seen_list_of(user_id))
if not is_made_at(at, expected) then return with_ended({ "clock", digits(expected), item }) end
local leaving, excess, reason = above_limit(user_id, sid, nil, limit, policy, full_at)
if not leaving then return with_ended({ "refused", "", item }) end

add_session(sid, record, user_id, login_time, at, due, place)
for index = 1, viewed and #viewed or 0, 2 do
  redis.call("ZADD", viewed_by .. sid, viewed[index + 1], viewed[index])
end
-- pcall, twice: the session is there, even if a full server refuses these.
if item then pcall(record_view, sid, item, keep, items_max) end
if not viewed then redis.pcall("HINCRBY", totals, "created", 1) end
return with_ended({ "saved", end_excess(leaving, excess, reason) })
